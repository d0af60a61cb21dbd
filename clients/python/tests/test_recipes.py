"""The recipes of examples/python, in virtual time and as processes."""

from __future__ import annotations

import importlib
import os
import pathlib
import subprocess
import sys

import kinesin.testing
import pytest

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples" / "python"
PACKAGES = pathlib.Path(kinesin.__file__).parents[1]


def test_fastapi(kinesin_server, monkeypatch):
    testclient = pytest.importorskip("fastapi.testclient")
    monkeypatch.setenv("KINESIN_SERVER", kinesin_server.url)
    monkeypatch.syspath_prepend(EXAMPLES / "fastapi")
    main = importlib.import_module("main")
    with testclient.TestClient(main.api) as api:
        for _ in range(2):  # the second request does nothing
            assert api.post("/reminders/42", params={"text": "water the plants"}).status_code == 202
        api.post("/reminders/43", params={"text": "do not", "delay": "10d"})
        assert api.delete("/reminders/43").json() == {"outcome": "cancelled"}
        assert api.delete("/reminders/44").status_code == 404
        kinesin_server.advance("29d")
        assert main.mailed == []
        kinesin_server.advance("1d")
        assert main.mailed == [42]


@pytest.fixture
def django(monkeypatch, tmp_path):
    pytest.importorskip("django")
    environment = {"DJANGO_SETTINGS_MODULE": "settings", "SHOP_DATABASE": str(tmp_path / "shop.sqlite3")}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(EXAMPLES / "django")
    setup = importlib.import_module("django").setup
    setup()
    from django.core.management import call_command
    from django.db import connection

    connection.settings_dict["NAME"] = environment["SHOP_DATABASE"]
    call_command("migrate", run_syncdb=True, verbosity=0)
    importlib.import_module("shop.tasks")
    yield importlib.import_module("shop.models").Order
    connection.close()


def test_django(django, kinesin_server):
    from django.test import Client
    from kinesin import celery

    with kinesin_server.worker(celery.app):
        order = django.objects.get(pk=Client().post("/orders").json()["order"])
        seen = []
        for step in ("59m", "1m", "70h", "2h"):
            kinesin_server.advance(step)
            order.refresh_from_db()
            seen.append(order.reminders)
        assert seen == [0, 1, 1, 2]


def test_the_worker_of_django(django, shared):
    from kinesin import celery
    from shop.tasks import remind

    order = django.objects.create()
    environment = {**os.environ, "KINESIN_SERVER": shared.url, "PYTHONPATH": str(PACKAGES), "PYTHONUNBUFFERED": "1"}
    worker = subprocess.Popen([sys.executable, EXAMPLES / "django" / "manage.py", "worker", "--slots", "2"], env=environment)
    celery.app._of.transport.urls = [shared.url]
    celery.app.ensure()
    made = remind.delay(order.pk)
    assert celery.app.wait(made.id, "20s").state == "success"
    order.refresh_from_db()
    worker.terminate()
    assert (order.reminders, worker.wait(10)) == (1, 0)
