"""Online: questions one at a time, chosen as one goes, on one durable budget."""

from maquette.sessions.opening import session
from maquette.sessions.session import Session
from maquette.sessions.state import Forecast, Past, Refusal, SessionAnswer

__all__ = ["Forecast", "Past", "Refusal", "Session", "SessionAnswer", "session"]
