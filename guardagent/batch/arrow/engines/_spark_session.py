"""The Spark session of a run: the host's, or a new one that ends with the run."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from guardagent.errors import InputError

_QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
_ON_ONE_MACHINE = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "localhost"}
_WITHOUT_RETRIES = re.compile(r"local(?:\[(\*|\d+)\])?")


@contextlib.contextmanager
def spark_session(options: Mapping[str, str]) -> Iterator[SparkSession]:
    """Opens a session with `master` and other properties.

    Raises:
        InputError: an option is wrong, or Spark does not start.
    """
    for name in options:
        if name != "master" and not name.startswith("spark."):
            raise InputError(f"unknown option {name!r} of the engine 'spark'; expected 'master' or 'spark.*'")
    if session := SparkSession.getActiveSession():
        with _configured(session, options):
            yield session
        return
    session = _started({"spark.master" if name == "master" else name: value for name, value in options.items()})
    try:
        yield session
    finally:
        session.stop()


@contextlib.contextmanager
def _configured(session: SparkSession, options: Mapping[str, str]) -> Iterator[None]:
    """Sets properties of the host's session, and in the end sets them back."""
    if "master" in options:
        raise InputError("a Spark session is running already, with its own master; expected no option 'master'")
    before: dict[str, Any] = {}
    try:
        for name, value in options.items():
            before[name] = session.conf.get(name, None)
            try:
                session.conf.set(name, value)
            except PySparkException:
                del before[name]
                raise InputError(f"the running Spark session does not take the option {name}={value}") from None
        yield
    finally:
        for name, value in before.items():
            session.conf.unset(name) if value is None else session.conf.set(name, value)


def _started(properties: Mapping[str, str]) -> SparkSession:
    """Starts Spark, without its output on the terminal."""
    with tempfile.TemporaryFile() as log:
        try:
            context = _new_context({**_QUIET, **properties}, log)
        except (PySparkException, Py4JError, OSError) as error:
            raise InputError(f"Spark does not start: {_reason(log, error)}") from None
    context.setLogLevel("OFF")
    if context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    return SparkSession(context)


def _new_context(properties: Mapping[str, str], log: BinaryIO) -> SparkContext:
    # A process has one Java machine, which starts with these properties and adds those of Spark's configuration.
    first = SparkConf().setAll(list(properties.items()))
    gateway = SparkContext._gateway or launch_gateway(first, {"stdout": log, "stderr": log})  # noqa: SLF001
    conf = SparkConf(_jvm=gateway.jvm).setAll(list(properties.items()))
    if found := _WITHOUT_RETRIES.fullmatch(conf.get("spark.master", "local[*]")):
        conf.set("spark.master", f"local[{found[1] or 1},4]")  # a task of a killed worker runs again, as on a cluster
        for name, value in _ON_ONE_MACHINE.items():
            conf.setIfMissing(name, value)  # no port is open to other machines
    conf.setIfMissing("spark.app.name", "guardagent audit")
    return SparkContext(conf=conf, gateway=gateway)


def _reason(log: BinaryIO, error: Exception) -> str:
    log.seek(0)
    lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    if isinstance(error, Py4JError):  # Java runs, and says in its exception what is wrong
        lines = [line for line in str(error).splitlines() if "Exception" in line]
    return next(filter(None, reversed(lines)), str(error)) if lines else str(error)
