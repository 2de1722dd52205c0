"""The Helm chart renders what the documentation promises, with configurations that are accepted.

``tests/vectors/helm`` has what helm renders of three sets of values; `make helm` brings helm, and a test compares.
Without helm, all other tests read these files.

    python -m tests.unit.test_helm_chart     # writes them anew
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from spanwire.cli.main import main
from tests.support.certificates import Authority
from tests.support.peers import HELM, require

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "deploy/helm/spanwire"
RENDERED: Final = ROOT / "tests/vectors/helm"
PAGE: Final = (ROOT / "docs/operations/kubernetes.md").read_text("utf-8")
SECRET: Final = "existingSecret=spanwire-passwords"
SAMPLES: Final = {
    "single": (),
    "network": ("replicas=3",),
    "standby": ("topology=standby", "replicas=2", "persistence.storageClass=nfs"),
    "encrypted": ("replicas=2", "tls.existingSecret=orders-tls"),
}
PASSWORDS: Final = {"SPANWIRE_PASSWORD_ADMIN": "8dhq7Lw2xk", "SPANWIRE_PASSWORD_NETWORK": "pw93jdkq2L"}
KUBERNETES: Final = "1.30.0"  # a helm that go builds knows no version of Kubernetes
RIGHTS: Final = ("read", "write", "admin")
Objects = list[dict[str, Any]]


def render(*values: str, chart: Path = CHART) -> subprocess.CompletedProcess[str]:
    settings = [word for value in values for word in ("--set", value)]
    command = [
        str(HELM),
        "template",
        "orders",
        str(chart),
        "--namespace",
        "mq",
        "--kube-version",
        KUBERNETES,
        *settings,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def objects(name: str) -> Objects:
    return [one for one in yaml.safe_load_all((RENDERED / f"{name}.yaml").read_text("utf-8")) if one]


def one(name: str, kind: str) -> dict[str, Any]:
    (found,) = [each for each in objects(name) if each["kind"] == kind]
    return found


def pod(name: str) -> dict[str, Any]:
    found: dict[str, Any] = one(name, "StatefulSet")["spec"]["template"]["spec"]
    return found


def container(name: str) -> dict[str, Any]:
    (found,) = pod(name)["containers"]
    return dict(found)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.long
def test_helm_renders_what_the_other_tests_read(name: str) -> None:
    require("helm")
    assert subprocess.run([str(HELM), "lint", "--strict", "--set", SECRET, str(CHART)], check=False).returncode == 0
    done = render(SECRET, *SAMPLES[name])
    assert (done.stdout, done.returncode) == ((RENDERED / f"{name}.yaml").read_text("utf-8"), 0), done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ((), "existingSecret: name a Secret with SPANWIRE_PASSWORD_"),
        ((SECRET, "replicas=2", "networkUser=nobody"), "networkUser: nobody is none of users"),
        ((SECRET, "topology=cluster"), "topology"),
        ((SECRET, "replica=2"), "replica"),
        ((SECRET, "rights[0].read[0]=users"), "rights"),
        ((SECRET, 'rights[0].queue=A"', *(f"rights[0].{right}[0]=users" for right in RIGHTS)), "rights"),
    ],
)
def test_values_that_cannot_work_are_refused(values: tuple[str, ...], reason: str) -> None:
    require("helm")
    done = render(*values)
    assert done.returncode != 0
    assert reason in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("values", "addresses"),
    [
        ((), ("tcp://orders-spanwire.mq.svc:61616", "stomp://orders-spanwire.mq.svc:61613", "http://localhost:8161/")),
        (
            ("tls.existingSecret=orders-tls",),
            (
                "ssl://orders-spanwire.mq.svc:61616",
                "stomp+ssl://orders-spanwire.mq.svc:61613",
                "https://localhost:8161/",
            ),
        ),
    ],
)
def test_the_notes_of_an_installation_name_the_addresses_that_it_has(
    values: tuple[str, ...], addresses: tuple[str, ...], tmp_path: Path
) -> None:
    require("helm")
    chart = shutil.copytree(CHART, tmp_path / "spanwire")
    (chart / "templates/NOTES.txt").rename(chart / "templates/notes.yaml")  # helm prints notes for a cluster alone
    done = render(SECRET, *values, chart=chart)
    notes = done.stdout.partition("notes.yaml\n")[2].partition("---")[0]
    assert re.findall(r"\S+://\S+", notes) == list(addresses), done


@pytest.mark.parametrize("name", SAMPLES)
def test_the_written_configurations_are_accepted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable, value in {**PASSWORDS, "POD_NAME": "orders-spanwire-0"}.items():
        monkeypatch.setenv(variable, value)
    files = one(name, "ConfigMap")["data"]
    authority = Authority()
    secret = authority.issue()
    secret.write_certificate(tmp_path / "tls.crt")
    (tmp_path / "tls.key").write_bytes(secret.key_pem())
    authority.write_certificate(tmp_path / "ca.crt")
    for file, text in files.items():
        (tmp_path / file).write_text(text.replace("/etc/spanwire-tls", str(tmp_path)), "utf-8")
        assert main(["config", "check", str(tmp_path / file)]) == 0, capsys.readouterr()
        assert capsys.readouterr().out.startswith("0 obstacles, 0 warnings")
        assert all(value not in text for value in PASSWORDS.values())


def test_the_brokers_of_a_network_are_linked_each_to_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable, value in PASSWORDS.items():
        monkeypatch.setenv(variable, value)
    files = one("network", "ConfigMap")["data"]
    assert sorted(files) == [f"orders-spanwire-{number}.xml" for number in range(3)]
    pods = one("network", "StatefulSet")
    headless = next(each for each in objects("network") if each.get("spec", {}).get("clusterIP") == "None")
    assert pods["spec"]["serviceName"] == headless["metadata"]["name"] == "orders-spanwire-pods"
    assert headless["spec"]["publishNotReadyAddresses"] is True
    links = {
        (int(file[-5]), int(other))
        for file, text in files.items()
        for other in re.findall(r"tcp://orders-spanwire-(\d)\.orders-spanwire-pods\.mq\.svc:61616", text)
    }
    assert links == {(1, 0), (2, 0), (2, 1)}  # duplex, so each pair once


@pytest.mark.parametrize("name", SAMPLES)
def test_a_pod_may_do_no_more_than_it_must(name: str) -> None:
    rights = pod(name)["securityContext"] | container(name)["securityContext"]
    image = (ROOT / "Containerfile").read_text("utf-8")
    assert f"USER {rights['runAsUser']}:{rights['runAsGroup']}" in image
    assert rights["runAsNonRoot"] is rights["readOnlyRootFilesystem"] is True
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert rights["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod(name)["automountServiceAccountToken"] is False
    assert container(name)["resources"].keys() == {"requests", "limits"}
    mounts = {mount["mountPath"] for mount in container(name)["volumeMounts"] if not mount.get("readOnly")}
    assert mounts == {"/var/lib/spanwire", "/run/spanwire", "/tmp"}


@pytest.mark.parametrize("name", SAMPLES)
def test_passwords_come_from_the_secret_alone(name: str) -> None:
    assert container(name)["envFrom"] == [{"secretRef": {"name": "spanwire-passwords"}}]
    assert [each["kind"] for each in objects(name) if each["kind"] == "Secret"] == []


def test_a_broker_is_probed_over_its_web_port_and_a_standby_by_a_command() -> None:
    for name in ("single", "network"):
        assert container(name)["livenessProbe"]["httpGet"] == {"path": "/health/live", "port": "web"}
        assert container(name)["readinessProbe"]["httpGet"] == {"path": "/health/ready", "port": "web"}
    standby = container("standby")
    assert standby["livenessProbe"]["exec"] == standby["startupProbe"]["exec"] == {"command": ["spanwire", "status"]}
    assert standby["readinessProbe"]["httpGet"]["path"] == "/health/ready"  # so the service finds the one that serves


def test_with_a_secret_for_tls_no_port_and_no_link_is_without() -> None:
    for text in one("encrypted", "ConfigMap")["data"].values():
        assert set(re.findall(r'uri="(?:static:\()?([a-z+]+):', text)) == {"ssl", "stomp+ssl"}
        assert '<web host="0.0.0.0" port="8161" tls="true"/>' in text
    (secret,) = [each["secret"] for each in pod("encrypted")["volumes"] if each["name"] == "tls"]
    assert secret == {"secretName": "orders-tls", "defaultMode": 0o440}
    probes = [
        container("encrypted")[f"{kind}Probe"]["httpGet"]["scheme"] for kind in ("startup", "liveness", "readiness")
    ]
    assert probes == ["HTTPS"] * 3


def test_every_user_of_the_defaults_has_the_rights_that_links_need_and_nobody_else_has() -> None:
    (text,) = one("single", "ConfigMap")["data"].values()
    assert re.findall(r'<authorizationEntry (\w+)="([^"]+)" read="(\w+)" write="(\w+)" admin="(\w+)"/>', text) == [
        ("queue", "&gt;", "users", "users", "users"),
        ("topic", "&gt;", "users", "users", "users"),
    ]


def test_standbys_share_a_volume_and_have_a_lease() -> None:
    claim = one("standby", "PersistentVolumeClaim")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    pods = one("standby", "StatefulSet")["spec"]
    assert "volumeClaimTemplates" not in pods
    assert (pods["updateStrategy"], pods["podManagementPolicy"]) == ({"type": "OnDelete"}, "Parallel")
    (text,) = one("standby", "ConfigMap")["data"].values()
    assert 'lease-database-locker lockAcquireSleepInterval="10000"' in text
    single = one("single", "StatefulSet")["spec"]["volumeClaimTemplates"]
    assert single[0]["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_every_value_has_a_schema_and_the_page_names_those_of_the_top() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    assert values.keys() == schema["properties"].keys() - {"global"}
    for name, value in values.items():
        if schema["properties"][name].get("additionalProperties") is False:
            assert value.keys() == schema["properties"][name]["properties"].keys(), name
    for name in (
        "topology",
        "replicas",
        "existingSecret",
        "users",
        "networkUser",
        "rights",
        "tls",
        "persistence",
        "resources",
    ):
        assert f"`{name}" in PAGE, name


if __name__ == "__main__":
    RENDERED.mkdir(exist_ok=True)
    for sample, chosen in SAMPLES.items():
        (RENDERED / f"{sample}.yaml").write_text(render(SECRET, *chosen).stdout, "utf-8")
