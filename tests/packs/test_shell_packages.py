"""The pack shell: packages and images from outside, and those of a list."""

from __future__ import annotations

import pytest

pytest.importorskip("tree_sitter")

from guardagent import Decision, load_policies
from guardagent.packs.shell.packages import allowed, packages_in, packages_of_file, resembles


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("pip install reqeusts 'flask>=2' httpx==1.0", ["pip:reqeusts", "pip:flask", "pip:httpx@1.0"]),
        ("python3 -m pip --proxy x install a", ["pip:a"]),
        ("pip install -r requirements.txt -c limits.txt -e . ./wheel dist/a.whl", []),
        ("pip install --index-url=https://x.example a", ["pip:?", "pip:a"]),
        ("pip install --extra-index-url https://x.example a", ["pip:https://x.example", "pip:a"]),
        ("pip install git+https://x.example/a.git", ["pip:git+https://x.example/a.git"]),
        ("pip install $NAME", ["pip:?"]),
        ("pip install *.whl 'evil==1.*'", ["pip:evil@1.*"]),
        ("pip install -e git+ssh://x.io/a -r https://x.io/r", ["pip:git+ssh://x.io/a", "pip:https://x.io/r"]),
        ("npm install -g evil; gem install -r evil; poetry add -e evil", ["npm:evil", "gem:evil", "pip:evil"]),
        ("uv add a && bash -c 'uv pip install b'", ["pip:a", "pip:b"]),
        ("uvx --from ruff@1 check .", ["pip:ruff@1"]),
        ("uv run --with evil job.py", ["pip:evil"]),
        ("uv run job.py; uv sync; npm ci; npm install; yarn; go mod download", []),
        ("npm i @acme/ui@1.2 left-pad --save", ["npm:@acme/ui@1.2", "npm:left-pad"]),
        ("npx -y cowsay hi", ["npm:cowsay"]),
        ("npx --cache tsc evil", ["npm:?"]),
        ("npm create vite app", ["npm:vite", "npm:app"]),
        ("go install x.io/y@latest; go run x.io/z@v1; go run .", ["go:x.io/y@latest", "go:x.io/z@v1"]),
        ("docker run --rm -v /a:/b -p 1:1 --name n app:dev sh", ["image:app:dev"]),
        ("docker run --odd python evil", ["image:?"]),
        (
            "docker run --user python evil/image; podman pull python evil",
            ["image:evil/image", "image:python", "image:evil"],
        ),
        ("npx -p a -p b c; npm exec --package=d -- e", ["npm:a", "npm:b", "npm:d"]),
        ("npx https://x.example/a.tgz; npx --registry=https://x.example a", ["npm:https://x.example/a.tgz", "npm:?"]),
        ("uvx -p python a; uvx -w b c; uvx -P d e", ["pip:a", "pip:b", "pip:c", "pip:?"]),
        ("go run -p 4 x.io/z@v1; pip install --editable=git+https://x.example/a", ["go:x.io/z@v1", "pip:?"]),
        ("sudo docker pull evil", ["image:evil"]),
        ("cat requirements.txt | grep pip", []),
        ("python -mpip install a; py -3 -m pip install b; python -I -m pipenv install c", ["pip:a", "pip:b", "pip:c"]),
        (
            "python -W ignore -m pip install a; python -Im pip install b; python -X dev -mpip install c",
            ["pip:a", "pip:b", "pip:c"],
        ),
        ("python job.py -m pip install a; python -c 'x' -mpip; python -m", []),
        (
            "npm it a; npm isntall b; npm update c; npm i d@npm:evil@1; npm x e; pnpx f",
            ["npm:a", "npm:b", "npm:c", "npm:evil@1", "npm:e", "npm:f"],
        ),
        ("bun x a; deno run npm:b job.ts; deno add jsr:c", ["npm:a", "npm:b", "npm:?"]),
        ("pip wheel a; easy_install b; poetry self add c; hatch dep add d", ["pip:a", "pip:b", "pip:c", "pip:d"]),
        ("pixi add a; bundle add b; composer require c", ["conda:a", "gem:b", "composer:c"]),
    ],
)
def test_names_are_read_from_commands(command: str, names: list[str]) -> None:
    """A name that is not certain is on no list."""
    assert packages_in(command) == names


_SHOP = '{"mcpServers": {"shop": {"command": "npx", "args": ["-y", "@acme/shop@1.2.3"]}}}'


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("claude mcp add shop -e A=b -- npx -y @acme/shop", ["npm:@acme/shop"]),
        ("claude mcp add --transport http shop https://mcp.example/shop", ["mcp:https://mcp.example/shop"]),
        ("gemini mcp add shop uvx shop-mcp==1.0", ["pip:shop-mcp@1.0"]),
        (
            "codex mcp add shop -- /opt/shop/server --port 1; codex mcp add --env A=b x",
            ["mcp:/opt/shop/server", "mcp:?"],
        ),
        (f"code --add-mcp '{_SHOP}'; claude mcp add-json shop $SETTINGS", ["npm:@acme/shop@1.2.3", "mcp:?"]),
        (f"echo '{_SHOP}' > .cursor/mcp.json; echo $A > mcp.json", ["npm:@acme/shop@1.2.3", "mcp:?"]),
        ("cat > compose.yaml <<END\nimage: evil\nEND\nsed s/a/b/ x > compose.yaml", ["image:evil", "image:?"]),
        (r"echo '# a\nFROM evil' > Dockerfile", ["image:?"]),
        ("claude mcp add x -- bash -c 'npx -y @acme/ok; /tmp/other'", ["npm:@acme/ok", "mcp:bash"]),
        ("claude -d mcp add x /tmp/other npx @acme/ok", ["mcp:/tmp/other"]),
        ("claude mcp add x /tmp/other -- https://mcp.example", ["mcp:/tmp/other"]),
        ("gemini mcp add --trust x /tmp/other npx @acme/ok", ["mcp:?"]),
        ("codex mcp add x --url https://mcp.example", ["mcp:https://mcp.example"]),
        ("cat > Dockerfile <<END\nFROM evil.io/python\nEND", ["image:evil.io/python"]),
        ("echo FROM evil | tee Dockerfile; dd of=Dockerfile if=x", ["image:evil", "image:?"]),
        ("sed -i 's/a: b/c: d/' compose.yaml; sed --in-place=.bak 's/a/b/' mcp.json", ["image:?", "mcp:?"]),
        ("find . -name Dockerfile -exec sed -Ei s/a/b/ {} +", ["image:?"]),
        ("sed -i s/a/mcpServers/ settings.json", ["mcp:?"]),
        ("sed s/a/b/ Dockerfile; sed -i s/a/b/ settings.json README.md; touch Dockerfile", []),
        ("docker run docker.io/library/python:3.12; podman container create $IMAGE", ["image:python:3.12", "image:?"]),
    ],
)
def test_servers_and_images_are_read_from_commands(command: str, names: list[str]) -> None:
    assert packages_in(command) == names


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        (".mcp.json", _SHOP, ["npm:@acme/shop@1.2.3"]),
        ("~/.gemini/settings.json", _SHOP, ["npm:@acme/shop@1.2.3"]),
        ("src/settings.json", '{"command": "npx x", "url": "https://a.example"}', []),
        ("mcp.json", '{"servers": {"a": {"type": "http", "url": "https://a.example"}}}', ["mcp:https://a.example"]),
        ("mcp.json", '{"servers": {"a": {"command": "docker", "args": ["run", "-i", "x/y"]}}}', ["image:x/y"]),
        ("mcp.json", '{"servers": {"a": {"command": "cmd", "args": ["/c", "npx", "x"]}}}', ["npm:x"]),
        ("mcp.json", '{"servers": {"a": {"command": "npx", "args": "x"}}}', ["mcp:?"]),
        ("mcp.json", '"command": "npx"', ["mcp:?"]),
        ("mcp.json", '{"servers": {}, "servers": {}}', ["mcp:?"]),
        (".codex/config.toml", '[mcp_servers.a]\ncommand = "uvx"\nargs = ["x@1.0.0"]', ["pip:x@1.0.0"]),
        ("settings.json", '{"context_servers": {"a": {"command": {"path": "/bin/a", "args": []}}}}', ["mcp:/bin/a"]),
        ("compose.yaml", "services:\n  a: {image: 'x/y:1'}\n  b:\n    image: $B", ["image:x/y:1", "image:?"]),
        (
            "web/Dockerfile.dev",
            """FROM --platform=x node:22 AS build
RUN --mount=a pip \\
 install a
RUN ["pip", "install", "b"]
FROM build
COPY --from=build /a /b
COPY --from=0 a b
COPY --from=x/y a b
COPY a b
from scratch""",
            ["image:node:22", "pip:a", "pip:b", "image:x/y"],
        ),
        ("notes.md", f"FROM evil {_SHOP}", []),
        ("Dockerfile", "RUN apt-get update && \\\n# deps\n\n  pip install evil", ["pip:evil"]),
        ("Dockerfile", "ONBUILD RUN pip install evil", ["pip:evil"]),
        ("Dockerfile", "RUN <<END\npip install evil\nEND", ["pip:evil"]),
        (
            "Dockerfile",
            "RUN --mount=type=bind,from=evil/a --mount='type=bind, FROM=evil/b' ls",
            ["image:evil/a", "image:evil/b"],
        ),
        ("Dockerfile", "RUN --mount=type=bind,\\\nfrom=evil/a uvx --from=b c", ["image:evil/a", "pip:b"]),
        ("Dockerfile", "RUN <<END\nFROM scratch AS evil/a\nEND\nCOPY --from=evil/a b c", ["image:evil/a"]),
        ("Dockerfile", "# syntax=evil/frontend\n# escape=`", ["image:evil/frontend", "image:?"]),
        ("Dockerfile", "pip install evil", ["pip:evil"]),
        ("Dockerfile", "evil/image AS build\nRUN ls", ["image:?"]),
        ("Dockerfile", " && ls", []),
        ("Dockerfile", 'CMD ["npx", "evil"]\nFROM a\nENTRYPOINT ["npx"]\nCMD ["b"]', ["npm:evil", "image:a", "npm:b"]),
        ("Dockerfile", 'ENTRYPOINT ["npx"]\nFROM a\nCMD ["python", "a.py"]', ["image:a"]),
        ("Dockerfile", "HEALTHCHECK --retries=2 CMD npx evil\nHEALTHCHECK NONE", ["npm:evil"]),
        ("Dockerfile", "ONBUILD HEALTHCHECK CMD npx evil", ["npm:evil"]),
        ("Dockerfile", 'FROM a AS b\nENTRYPOINT ["npx"]\nFROM b\nCMD ["c"]', ["image:a", "npm:c"]),
        ("Dockerfile", "ENV A=b\nLABEL c='pip install d'", []),
        ("Dockerfile", "", []),
        (
            "compose.yaml",
            "services:\n  a:\n    image:\n      evil\n  b:\n    ? image\n    : *c",
            ["image:evil", "image:?"],
        ),
        ("compose.yaml", 'a: {build: {dockerfile_inline: "FROM evil"}}', ["image:evil"]),
        ("compose.yaml", "dockerfile_inline:", ["image:?"]),
        ("compose.yaml", "a: {build: 'https://x.io/a.git'}", ["image:https://x.io/a.git"]),
        ("compose.yaml", "a: {build: {context: 'git@x.io:a', args: {A: $B}}}", ["image:git@x.io:a"]),
        ("compose.yaml", "a: {build: {context: ., args: {A: $B}}, include: ['oci://x']}", ["image:oci://x"]),
        ("compose.yaml", "additional_contexts: [a=https://b, c=../d]", ["image:https://b"]),
        ("compose.yaml", "additional_contexts: {a: 'docker-image://b', c: d}", ["image:b"]),
        ("compose.yaml", "a: {entrypoint: [npx, a], command: npx b}", ["npm:a", "npm:b"]),
        ("compose.yaml", "{test: [CMD, npx, a]}\n---\n{test: [CMD-SHELL, npx b; ls]}", ["npm:a", "npm:b"]),
        ("compose.yaml", "a: &a [npx, evil]\ncommand: *a", ["image:?"]),
        ("compose.yaml", f"a: {{command: {'[' * 300 + ']' * 300}}}", ["image:?"]),
        ("compose.yaml", "a: {build: ., command: [python, a.py]}", []),
        ("compose.yaml", "a: {build: {target: test}, command: [npm, run, build], profiles: [test], name: test}", []),
        ("compose.yaml", "a: {test: {environment: *b, command: [npx, c]}}", ["npm:c"]),
        ("compose.yaml", '"im\\x61ge": evil', ["image:evil"]),
        ("compose.yaml", "evil", ["image:?"]),
        ("compose.yaml", "image: a\n    ports:", ["image:?"]),
        ("compose.yaml", "ports:\n  - 80:80", []),
        ("compose.yaml", "", []),
        (".gemini/settings.json", '"command": "npx", "args": ["-y", "evil"],', ["mcp:?"]),
        (".gemini/./settings.json", '["-y", "evil"]', ["mcp:?"]),
        (".gemini/settings.json", '{"httpUrl": "https://a.example"}', ["mcp:?"]),
        (".gemini/settings.json", '"theme": "dark",', []),
        (".gemini/settings.json", '{"theme": "dark"}', []),
        (".codex/config.toml", 'command = "npx"', ["mcp:?"]),
        (
            ".codex/config.toml",
            'command = "npx"\n[mcp_servers.a]\nurl = "https://a.example"',
            ["mcp:https://a.example", "mcp:?"],
        ),
        (".codex/config.toml", '"evil"]', ["mcp:?"]),
        (".codex/config.toml", 'model = "large"', []),
        ("plugin.json", '{"url": "https://a.example", "mcpServers": {}}', []),
        ("settings.json", _SHOP.replace("mcpServers", "mcpS\\u0065rvers"), ["npm:@acme/shop@1.2.3"]),
        ("opencode.json", '{"mcp": {"a": {"type": "local", "command": ["npx", "-y", "b"]}}}', ["npm:b"]),
        ("opencode.jsonc", '"a": {"type": "remote", "url": "https://a.example"}', ["mcp:?"]),
        (
            ".vscode/settings.json",
            '{"mcp": {"servers": {"a": {"url": "https://a.example"}}}}',
            ["mcp:https://a.example"],
        ),
        (".vscode/settings.json", '{"terminal": {"path": "bash", "args": []}}', []),
        ("x.code-workspace", '{"settings": { // b\n"mcp": {}}}', ["mcp:?"]),
        ("package.json", '"mcp": "^1.0.0", "url": "https://a.example"', []),
        ("a.toml", '["mcp_s\\u0065rvers".a]\ncommand = "evil"', ["mcp:evil"]),
        ("fr.json", '"a": "\\u00e9"', []),
        ("mcp.json", '["-y", "evil"]', ["mcp:?"]),
        (
            "mcp.json",
            '{"a": {"command": "bash", "args": ["-c", "npx -y @acme/ok; /tmp/b"]}}',
            ["npm:@acme/ok", "mcp:bash"],
        ),
        ("mcp.json", '{"a": {"command": "/tmp/npx", "args": ["@acme/ok"]}}', ["npm:@acme/ok", "mcp:/tmp/npx"]),
        ("mcp.json", '{"a": {"command": "uv", "args": ["run", "--with", "ok", "/tmp/b"]}}', ["pip:ok", "mcp:uv"]),
        ("mcp.json", '{"a": {"command": "docker", "args": ["exec", "b", "npx", "ok"]}}', ["npm:ok", "mcp:docker"]),
        ("mcp.json", '{"a": {"command": "cmd", "args": ["/c", "npx", "ok", "&", "b"]}}', ["mcp:?"]),
    ],
)
def test_servers_and_images_are_read_from_files(path: str, text: str, names: list[str]) -> None:
    assert [*packages_of_file(path, text)] == names


def test_one_list_holds_for_packages_servers_and_images() -> None:
    listed = ["npm:@acme/*", "image:python", "mcp:https://mcp.example"]
    include = [{"pack": "guardagent:shell", "constants": {"packages": listed, "pinned": True}}]
    session = load_policies(data={"version": 1, "include": include}).session()

    def asks(text: str, path: str = ".mcp.json") -> bool:
        verdict = session.check("Write", {"file_path": path, "content": text}, reserve=False)
        assert verdict.decision in (Decision.ALLOW, Decision.ESCALATE)
        return verdict.decision is Decision.ESCALATE

    assert not asks(_SHOP)
    assert asks(_SHOP.replace("@1.2.3", "@latest"))
    assert asks(_SHOP.replace("@acme", "@evil"))
    address = '{"mcpServers": {"a": {"url": "https://mcp.example%s"}}}'
    assert [asks(address % more) for more in ("", "/other", "@evil.io")] == [False, True, True]
    digest = f"@sha256:{'a' * 64}"
    bases = (f"python:3.12{digest}", "python:latest", "python", f"evil.io/python{digest}")
    assert [asks(f"FROM {base}", "Dockerfile") for base in bases] == [False, True, True, True]
    assert not asks("pip install evil", "README.md")


@pytest.mark.parametrize(
    ("package", "listed", "expected"),
    [
        ("pip:Flask_Login@1", ["flask-login"], True),
        ("pip:a[b]@1", ["a"], True),
        ("pip:a@1", ["a@1"], True),
        ("pip:a@2", ["a@1"], False),
        ("npm:@acme/ui@1", ["npm:@acme/*"], True),
        ("npm:@evil/ui", ["npm:@acme/*"], False),
        ("pip:a", ["npm:a"], False),
        ("image:python:3.12", ["image:python:3.12"], True),
        ("image:python:3.13", ["image:python:3.12"], False),
        ("image:python:3.13", ["image:python"], True),
        ("image:evil.io/python", ["image:python"], False),
        ("pip:?", ["*"], False),
        ("pip:reqeusts", ["requests"], False),
    ],
)
def test_a_list_allows_names_versions_and_beginnings(package: str, listed: list[str], expected: bool) -> None:
    assert allowed(package, listed) is expected


def test_what_the_list_lacks_needs_approval_and_nothing_does_without_a_list() -> None:
    def decisions(**more: object) -> list[Decision]:
        data = {"version": 1, "include": [{"pack": "guardagent:shell", **more}]}
        session = load_policies(data=data).session()
        commands = ("pip install requests", "pip install shopkit", "npx tsc", "pip install -r requirements.txt")
        return [session.check("bash", {"command": command}, reserve=False).decision for command in commands]

    assert decisions() == [Decision.ALLOW] * 4
    listed = decisions(constants={"packages": ["requests", "npm:eslint"]})
    assert listed == [Decision.ALLOW, Decision.ESCALATE, Decision.ESCALATE, Decision.ALLOW]


@pytest.mark.parametrize(
    ("command", "is_pinned"),
    [
        ("pip install httpx==1.0 flask==3.0.1", True),
        ("pip install -r requirements.txt; npm ci; uv sync", True),
        ("npm i @acme/ui@1.2.3; go run x.io/z@v1.4.0; uvx ruff@0.9.1", True),
        (f"docker pull python@sha256:{'a' * 64}", True),
        ("pip install httpx", False),
        ("pip install 'httpx>=1.0'", False),
        ("pip install httpx==1.*", False),
        ("pip install httpx==1.0 flask", False),
        ("npm i react@1.2", False),
        ("npx cowsay@latest", False),
        ("npm i react@^1.2.3", False),
        ("pip install $NAME", False),
        ("docker run python:3.12", False),
    ],
)
def test_an_exact_version_is_wanted_if_the_operator_says_so(command: str, is_pinned: bool) -> None:
    for pinned in (True, False):
        pack = {"pack": "guardagent:shell", "constants": {"pinned": pinned}}
        session = load_policies(data={"version": 1, "include": [pack]}).session()
        rules = session.check("bash", {"command": command}, reserve=False).rules
        assert ("shell.installs" in rules) == (pinned and not is_pinned), rules


@pytest.mark.parametrize(
    ("package", "near"),
    [
        ("pip:reqeusts", "requests"),
        ("pip:request@1.0", "requests"),
        ("pip:Python_DateUtils", "python-dateutil"),
        ("pip:python-dateuti1", "python-dateutil"),
        ("pip:pythondateutil", "python-dateutil"),
        ("npm:lodahs", "lodash"),
        ("npm:crossenv", "cross-env"),
        ("npm:request", None),
        ("npm:reqeusts", None),
        ("npm:reacct@1.0.0", "react"),
        ("pip:rihc", None),
        ("pip:?", None),
        ("image:pyhton", None),
        ("pip:guardagent", None),
    ],
)
def test_names_near_a_popular_one(package: str, near: str | None) -> None:
    """In their own ecosystem: one letter more, less or other, two in the other order, or other separators."""
    assert resembles(package) == near


@pytest.mark.parametrize(("listed", "asks"), [([], True), (["pip:reqeusts"], False)])
def test_a_name_near_a_popular_one_needs_approval(listed: list[str], asks: bool) -> None:
    """Unless the operator lists it; so popular names need none."""
    pack = {"pack": "guardagent:shell", "constants": {"packages": listed}}
    session = load_policies(data={"version": 1, "include": [pack]}).session()
    verdict = session.check("bash", {"command": "pip install reqeusts"}, reserve=False)
    assert (verdict.decision is Decision.ESCALATE) is asks
    assert listed or not session.check("bash", {"command": "pip install requests flask"}, reserve=False).label


@pytest.mark.parametrize(
    ("tool", "arguments", "asks"),
    [
        ("bash", {"command": "pip install evil", "path": "a.txt", "content": "x"}, True),
        ("bash", {"command": "npx -y evil", "file": "a.txt", "text": "x"}, True),
        ("bash", {"command": "ls", "path": "Dockerfile", "content": "FROM evil"}, True),
        ("bash", {"run": "pip install evil", "path": "a.txt", "content": "x"}, True),
        ("bash", {"run": "pip install evil", "path": "a.txt"}, True),
        ("bash", {"command": "pip install listed", "path": "a.txt", "content": "x"}, False),
        ("exec", {"text": "pip install evil", "path": "/w"}, True),
        ("terminal", {"data": "pip install evil", "path": "/w"}, True),
        ("exec", {"text": "pip install listed", "path": "/w"}, False),
        ("run_commands", {"commands": ["pip install evil"]}, True),
        ("run_commands", {"commands": ["pip install listed"]}, False),
        ("bash", {"command": ["pip install evil"]}, True),
        ("exec", {"program": "pip", "args": ["install", "evil"]}, True),
        ("write_file", {"text": "pip install evil", "path": "a.md"}, False),
        (
            "Edit",
            {"file_path": "README.md", "old_string": "pip install evil", "new_string": "pip install other"},
            False,
        ),
        ("replace_in_file", {"path": "README.md", "diff": "pip install evil"}, False),
        ("Write", {"file_path": ".mcp.json", "content": {"a": {"command": "evil"}}}, True),
        ("insert_edit_into_file", {"filePath": "Dockerfile", "code": "FROM evil"}, True),
        (
            "str_replace_based_edit_tool",
            {"command": "insert", "path": "Dockerfile", "insert_line": 1, "insert_text": "FROM evil"},
            True,
        ),
    ],
)
def test_each_argument_is_read_as_what_it_can_be(tool: str, arguments: dict[str, object], asks: bool) -> None:
    """A command stays one beside the path and the text of a file."""
    pack = {"pack": "guardagent:shell", "constants": {"packages": ["listed"]}}
    session = load_policies(data={"version": 1, "include": [pack]}).session()
    verdict = session.check(tool, arguments, reserve=False)
    assert verdict.decision is (Decision.ESCALATE if asks else Decision.ALLOW)


def test_a_command_beside_a_path_prepares_a_later_one() -> None:
    """The tools tagged `shell` run it, whatever its argument is called; those tagged `writes` keep a text."""
    policies = load_policies(data={"version": 1, "include": ["guardagent:shell"]})
    for tool, is_denied in (("exec", True), ("write_file", False)):
        session = policies.session()
        session.call(lambda **_: "", tool, {"text": "echo 'rm -rf ~' > a.sh", "path": "w"})
        verdict = session.check("exec", {"data": "sh a.sh", "path": "w"}, reserve=False)
        assert verdict.rules == (("shell.prepared",) if is_denied else ())
