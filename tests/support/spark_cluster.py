"""A real Spark cluster for tests: one master, two workers and a Connect server on this machine, ended by process id."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATHS = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""Java that starts with little work, for processes that do not live long."""


class Cluster:
    """Four Java processes that end with the object; no port is reachable from another machine."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="mq-spark-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        master, page = _free_port(), _free_port()
        self.master = f"spark://127.0.0.1:{master}"
        places = ["--host", "127.0.0.1", "--port", str(master), "--webui-port", str(page)]
        self._start("master", MASTER, *places)
        self._await("master", "Starting Spark master")
        self.workers = [self._start_worker(i) for i in range(2)]
        for i in range(2):
            self._await(f"worker-{i}", "Successfully registered")

    def _start_worker(self, number: int) -> subprocess.Popen[bytes]:
        size = ["-c", "2", "-m", "2g", "-d", str(self.home / f"work-{number}")]
        place = ["--host", "127.0.0.1", "--webui-port", str(_free_port())]
        return self._start(f"worker-{number}", WORKER, *size, *place, self.master)

    def start_connect(self) -> str:
        """The address of a Connect server on this cluster."""
        port = _free_port()
        settings = self.settings(cores=1) | {
            "spark.connect.grpc.binding.port": str(port),
            "spark.connect.grpc.binding.address": "127.0.0.1",
        }
        words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        submit = "org.apache.spark.deploy.SparkSubmit"
        self._start(
            "connect",
            submit,
            "--master",
            self.master,
            *words,
            "--class",
            CONNECT,
            "--name",
            "c",
            "spark-internal",
        )
        self._await("connect", "Spark Connect server started")
        return f"sc://127.0.0.1:{port}"

    def settings(self, *, cores: int) -> dict[str, str]:
        """Of a session on this cluster: small, and with this checkout on the workers."""
        return {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "700m",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.executor.extraJavaOptions": QUICK,
            "spark.executor.memory": "600m",
            "spark.executor.cores": "1",
            "spark.cores.max": str(cores),
            "spark.executorEnv.PYTHONPATH": PATHS,
            "spark.pyspark.python": sys.executable,
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(self.home / "warehouse"),
            "spark.sql.catalogImplementation": "in-memory",
            "spark.local.dir": str(self.home / "local"),
        }

    def session(self) -> Any:
        """A session of this process on two executors."""
        os.environ.update({"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable})
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(self.master).appName("test")
        for name, value in self.settings(cores=2).items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        return session

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait(30)

    def stop(self) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill(process)
        shutil.rmtree(self.home, ignore_errors=True)

    def _start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        spec = importlib.util.find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        program = Path(spec.origin).parent / "bin" / "spark-class"
        environment = os.environ | {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "700m" if name == "connect" else "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "SPARK_LOG_DIR": str(self.home),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": PATHS,
        }
        with (self.home / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(program), *words], stdout=log, stderr=log, env=environment, cwd=self.home
            )
        self._processes.append(process)
        return process

    def _await(self, name: str, words: str) -> None:
        log = self.home / f"{name}.log"
        for _ in range(1200):
            if words in log.read_text(errors="replace"):
                return
            time.sleep(0.1)
        raise RuntimeError(f"{name} did not start: {log.read_text(errors='replace')[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
