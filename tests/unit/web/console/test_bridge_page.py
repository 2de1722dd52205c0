"""The page of a bridge: its state, and the form that sets parameters while it runs."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from spanwire.management.beans.operations import BRIDGE_PARAMETERS
from spanwire.web.console.pages.bridge_page import FLAGS, MEANINGS, NUMBERS, PASSWORDS, QUALITY
from spanwire.web.routes import application
from tests.support.fake_broker_link import SUMMARY, FakeBrokerLink

HOST = "http://127.0.0.1:8161"
OWN = {"Origin": HOST}
PATH = "/admin/bridge?name=orders"
PARAMETERS: dict[str, object] = {
    "sourceDestination": "queue://A",
    "sourceUsername": "u",
    "sourcePassword": "****",
    "targetPassword": None,
    "selector": "n = 1\nand m = 2",
    "qualityOfServiceMode": "DUPLICATES_OK",
    "maxBatchSize": 100,
    "maxRetries": -1,
    "addMessageIDInHeader": False,
}


def linked(parameters: dict[str, object] = PARAMETERS) -> FakeBrokerLink:
    link = FakeBrokerLink()
    link.answers["status"] = link.answers["summary"] = {
        **SUMMARY, "bridges": [{"name": "orders", "state": "running", "source": "queue://A at a", "forwarded": 1_200}],
    }  # fmt: skip
    link.answers["bridge-parameters"] = {"broker": "orders", "bridge": "orders", "parameters": parameters}
    return link


def client_of(link: FakeBrokerLink) -> TestClient:
    return TestClient(application(link, is_loopback=True), base_url=HOST, follow_redirects=False)


def page_of(link: FakeBrokerLink, user: str = "anna") -> str:
    text: str = client_of(link).get(PATH, auth=(user, f"{user[0]}-word")).text
    return text


def form_of(**changed: str) -> dict[str, str]:
    """The fields of the form as a browser sends them, with some written."""
    shown = {"sourceUsername": "u", "selector": "n = 1\r\nand m = 2", "qualityOfServiceMode": "DUPLICATES_OK",
             "maxBatchSize": "100", "maxRetries": "-1", "addMessageIDInHeader": "false"}  # fmt: skip
    was = {f"was_{name}": value for name, value in shown.items()}
    return {**was, **shown, "sourcePassword": "", "targetPassword": "", **changed}


def settings_of(link: FakeBrokerLink) -> object:
    (arguments,) = [arguments for command, arguments in link.asked if command == "bridge-change"]
    assert arguments["name"] == "orders"
    return arguments["settings"]


def test_every_parameter_that_can_be_changed_has_a_meaning() -> None:
    assert set(MEANINGS) == set(BRIDGE_PARAMETERS)
    assert {*NUMBERS, *FLAGS, *PASSWORDS, QUALITY} < set(BRIDGE_PARAMETERS)


def test_a_viewer_sees_state_and_parameters_and_no_form() -> None:
    text = page_of(linked(), "vera")
    assert "1,200" in text and 'class="state good">running<' in text
    assert "<dd>queue://A</dd>" in text and "<dd>****</dd>" in text and "<dd>100</dd>" in text
    assert 'method="post" action="/admin/bridge' not in text and ">Pause<" not in text
    assert '<a href="/admin/network-map" aria-current="page">' in text
    assert ">Pause<" in page_of(linked(), "otto")
    assert 'action="/admin/bridge' not in page_of(linked(), "otto")


def test_an_administrator_has_a_field_for_each_parameter_with_its_value() -> None:
    text = page_of(linked())
    assert 'name="maxBatchSize" value="100" inputmode="numeric" pattern="-?[0-9]*"' in text
    assert '<option value="DUPLICATES_OK" selected>' in text and '<option value="AT_MOST_ONCE">' in text
    assert '<option value="false" selected>no</option>' in text
    assert ">\nn = 1\nand m = 2</textarea>" in text
    assert "<dd>queue://A</dd>" in text  # source and target belong to the definition
    assert 'name="sourceDestination"' not in text and "****" not in text
    assert 'name="without_sourcePassword"' in text and 'name="without_targetPassword"' not in text


def test_only_what_differs_from_the_form_is_set() -> None:
    link = linked()
    answer = client_of(link).post(PATH, data=form_of(maxBatchSize="7"), headers=OWN, auth=("anna", "a-word"))
    assert (answer.status_code, settings_of(link)) == (303, {"maxBatchSize": "7"})
    page = client_of(link).get(answer.headers["location"], auth=("anna", "a-word"))
    assert "The parameters are set." in page.text


@pytest.mark.parametrize(
    ("written", "settings"),
    [
        ({"selector": ""}, {"selector": None}),
        ({"sourcePassword": "p-4711"}, {"sourcePassword": "p-4711"}),
        ({"without_sourcePassword": "1", "sourcePassword": "p"}, {"sourcePassword": None}),
        ({"addMessageIDInHeader": "true", "maxRetries": ""}, {"maxRetries": None, "addMessageIDInHeader": "true"}),
    ],
)
def test_an_empty_field_takes_its_parameter_away_and_passwords_stay(
    written: dict[str, str], settings: dict[str, object]
) -> None:
    link = linked()
    answer = client_of(link).post(PATH, data=form_of(**written), headers=OWN, auth=("anna", "a-word"))
    assert (answer.status_code, settings_of(link)) == (303, settings)


def test_a_form_without_a_change_asks_nothing_of_the_bridge() -> None:
    link = linked()
    answer = client_of(link).post(PATH, data=form_of(), headers=OWN, auth=("anna", "a-word"))
    assert (answer.status_code, link.count("bridge-change")) == (400, 0)
    assert 'role="alert">no field differs' in answer.text


def test_a_refused_form_is_shown_again_with_all_but_its_passwords() -> None:
    class Refusing(FakeBrokerLink):
        async def ask(self, command: str, **arguments: object) -> object:
            self.refusal = "maxBatchSize is <0>" if command == "bridge-change" else ""
            return await super().ask(command, **arguments)

    link = Refusing()
    link.answers |= linked().answers
    data = form_of(maxBatchSize="0", selector="x\r\ny", sourcePassword="p-4711")
    answer = client_of(link).post(PATH, data=data, headers=OWN, auth=("anna", "a-word"))
    assert answer.status_code == 409
    assert 'role="alert">maxBatchSize is &lt;0&gt;</p>' in answer.text
    assert 'name="maxBatchSize" value="0"' in answer.text and 'name="was_maxBatchSize" value="100"' in answer.text
    assert "p-4711" not in answer.text


def test_s19_an_operator_and_a_page_of_another_host_set_nothing() -> None:
    link = linked()
    data = form_of(maxBatchSize="7")
    assert client_of(link).post(PATH, data=data, headers=OWN, auth=("otto", "o-word")).status_code == 403
    assert client_of(link).post(PATH, data=data, auth=("anna", "a-word")).status_code == 403
    assert link.count("bridge-change") == 0


def test_a_route_has_no_parameters_and_an_unknown_bridge_no_page() -> None:
    assert "A route has no parameters." in page_of(linked({}))
    link = linked()
    assert client_of(link).get("/admin/bridge?name=other", auth=("anna", "a-word")).status_code == 404
