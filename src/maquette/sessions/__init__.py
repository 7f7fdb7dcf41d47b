"""Online: questions one at a time, chosen as one goes, on one durable budget. `opening.session` opens one."""

from maquette.sessions.question import Forecast, Past, Refusal, SessionAnswer
from maquette.sessions.session import Session

__all__ = ["Forecast", "Past", "Refusal", "Session", "SessionAnswer"]
