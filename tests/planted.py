"""Secrets and traces made up on the spot, to plant in transcripts; no scanner finds one in this file."""

import base64
import json
import random
import string

HEX, DIGITS = "0123456789abcdef", string.digits
WORDS = string.ascii_letters + DIGITS
CAPITALS = string.ascii_uppercase + "234567"
URL_SAFE, BASE64 = WORDS + "-_", WORDS + "+/"


class Maker:
    """Draws characters, always the same ones for a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def __call__(self, count, alphabet=WORDS):
        return "".join(self.random.choice(alphabet) for _ in range(count))

    def mixed(self, count, alphabet=WORDS):
        """Characters of which some are small, some capital and some digits, as keys have them."""
        head = self(1, string.ascii_lowercase) + self(1, string.ascii_uppercase) + self(1, DIGITS)
        return head + self(count - 3, alphabet)


def pem(make, label):
    body = "\n".join(make(64, BASE64) for _ in range(6)) + "\n" + make(30, BASE64) + "=="
    dashes = "-" * 5
    return f"{dashes}BEGIN {label}{dashes}\n{body}\n{dashes}END {label}{dashes}"


def jwt(make):
    parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": make(8), "iat": 1}]
    coded = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts
    ]
    return ".".join([*coded, make(43, URL_SAFE)])


def secrets(seed):
    """Return ``(kind, line, secret)``: the line as a session would show it, and what must not survive."""
    make, garden = Maker(seed), Garden()
    _keys_of_hosts(make, garden.plant)
    _keys_of_services(make, garden.plant)
    _keys_of_others(make, garden.plant)
    _passwords(make, garden.plant)
    return garden.made


class Garden:
    """What was planted: kind, line and secret."""

    def __init__(self):
        self.made = []

    def plant(self, kind, secret, line="{}"):
        """Plant a secret in the place of the braces of a line."""
        self.made.append((kind, line.replace("{}", secret), secret))


def _keys_of_hosts(make, plant):
    for letter, line in zip(
        "opusr", ("remote: {}", "GH_TOKEN={}", "'{}'", "token {}", "x={};"), strict=True
    ):
        plant("github", f"gh{letter}" + "_" + make(36), line)
    for line in ("export GITHUB_PAT={}", "https://{}@github.com/o/r.git"):
        plant("github fine-grained", "github" + "_pat_" + make(22) + "_" + make(59), line)
    for line in ("HF_TOKEN={}", "login(token='{}')", "Token: {}"):
        plant("hugging face", "hf" + "_" + make(34), line)
    for start, line in (("AKIA", "aws_access_key_id = {}"), ("ASIA", "{}"), ("AKIA", "id: {}")):
        plant("aws id", start[:2] + start[2:] + make(16, CAPITALS), line)
    for line in (
        "aws_secret_access_key = {}",
        "AWS_SECRET_ACCESS_KEY={}",
        '"SecretAccessKey": "{}"',
    ):
        plant("aws secret", make.mixed(40, BASE64), line)
    for line in (
        "Authorization: Bearer {}",
        "curl -H 'authorization: bearer {}' x",
        "-H Bearer {}",
    ):
        plant("bearer", make.mixed(40, URL_SAFE), line)


def _keys_of_services(make, plant):
    plant(
        "basic header",
        base64.b64encode(f"me:{make(14)}".encode()).decode(),
        "Authorization: Basic {}",
    )
    for scheme in ("postgresql", "mysql+pymysql", "mongodb+srv", "redis", "amqp", "https"):
        plant(
            "connection string",
            make(14),
            f"DB: {scheme}://app:{{}}@db-{make(3, DIGITS)}.example.net:5432/x",
        )
    plant("connection string", make(9) + "/" + make(5), "postgres://app:{}@db.example.net/x")
    for line in ("{}", "cookie session={}", "id_token={}"):
        plant("jwt", jwt(make), line)
    for start in ("xoxb", "xoxp"):
        plant("slack", f"{start}-{make(12, DIGITS)}-{make(12, DIGITS)}-{make(24)}")
    plant(
        "slack",
        f"T{make(8, CAPITALS)}/B{make(8, CAPITALS)}/{make(24)}",
        "https://hooks.slack.com/services/{}",
    )
    plant("openai", "sk" + "-" + make.mixed(48), "OPENAI_API_KEY={}")
    plant("openai", "sk" + "-proj-" + make.mixed(120, URL_SAFE), "key is {}")
    plant("anthropic", "sk" + "-ant-api03-" + make.mixed(93, URL_SAFE) + "AA", "using {}")
    plant("anthropic", "sk" + "-ant-oat01-" + make.mixed(93, URL_SAFE) + "AA")
    for label in ("RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY"):
        plant("pem", pem(make, label))


def _keys_of_others(make, plant):
    plant("google", "AI" + "za" + make(35, URL_SAFE), "key={}&q=1")
    plant(
        "gitlab", "gl" + "pat-" + make(20, URL_SAFE), "git clone https://oauth2:{}@gitlab.com/a/b"
    )
    plant("npm", "npm" + "_" + make(36), "//registry/:_authToken={}")
    plant("pypi", "pypi" + "-AgEIcHlwaS5vcmc" + make(90, URL_SAFE), "password = {}")
    plant("stripe", "sk" + "_live_" + make(24))
    plant("sendgrid", "S" + "G." + make(22, URL_SAFE) + "." + make(43, URL_SAFE))
    plant("nvidia", "nv" + "api-" + make.mixed(64, URL_SAFE), "NGC: {}")
    plant("groq", "gs" + "k_" + make(52))


def _passwords(make, plant):
    plant("weights and biases", make(40, HEX), "WANDB_API_KEY={}")
    plant("azure", make(86, BASE64) + "==", "AccountName=x;AccountKey={};EndpointSuffix=core")
    plant("password", "hunter" + make(4, DIGITS), "PGPASSWORD={} psql")
    plant("password", "Tr0ub" + make(6), "password: {}")
    plant("password", "s3cr" + make(6), "mysql -u root -p{} db")
    plant("password", "correct" + make(5), "curl -u " + "admin:{} https://x.example")
    plant("password", make(12), "sshpass -p {} ssh x")
    plant("password", "swordfish" + make(3, string.ascii_lowercase), 'db_password = "{}"')
    plant("password", make(14), "docker login registry.example -u me -p {}")
    plant("password", make(14), "redis-cli -h x -a {} ping")
    plant("weights and biases", make(40, HEX), "wandb login {}")
    plant("notebook token", make(48, HEX), "http://127.0.0.1:8888/?token={}")
    plant("signature", make.mixed(43), "https://x.example/y?sv=2020&sig={}%3D")
    plant("telegram", make(9, DIGITS) + ":AA" + make(33, URL_SAFE), "bot {}")
    plant("password", make(12), "machine h login me password {}")
    for count in (24, 32, 44, 64):
        plant("random value", make.mixed(count), "session {} opened")
    plant("random value", make.mixed(48, BASE64), "data {}")


def traces(seed):
    """Return ``(kind, line, trace)`` of what names a person, a host or a place."""
    make = Maker(seed)
    small = string.ascii_lowercase
    user, host = "q" + make(7, small), "gx" + make(5, small) + "-07"
    other, far = "z" + make(7, small), "kw" + make(6, small)
    number = make.random.randint
    address = f"10.{number(1, 250)}.{number(1, 250)}.{number(1, 250)}"
    public = f"{number(11, 99)}.{number(1, 250)}.{number(1, 250)}.{number(1, 250)}"
    long = f"fe80::{make(4, HEX)}:{make(4, HEX)}:1a2b:3c4d"
    hardware = f"02:{make(2, HEX)}:{make(2, HEX)}:ab:cd:ef"
    return [
        ("home", f"/home/{user}/kernels/a.py", f"/home/{user}"),
        ("home", f"C:\\Users\\{other}\\kernels", other),
        ("home", f"/Users/{other}/x", f"/Users/{other}"),
        ("user", f"hello {user.upper()}", user.upper()),
        ("user", f"-rw-r--r-- 1 {other} {other} 12 Nov 30 10:15 a.py", other),
        ("user", f"USER={user}", user),
        ("host", f"{user}@{host}:~/x$ ls", host),
        ("host", f"Linux {far} 5.15.0-91-generic #101-Ubuntu SMP x86_64 GNU/Linux", far),
        ("host", f"ssh me@{far} nvidia-smi", far),
        ("host", f"job ran on {host}, exit 0", host),
        ("e-mail", f"Author: A <{user}@{far}.org>", f"{user}@{far}.org"),
        ("e-mail", f"{other}.b@mail.{far}.co.uk", f"{other}.b@mail.{far}.co.uk"),
        ("ip", f"listening on {address}:8080", address),
        ("ip", f"connect to {public} failed", public),
        ("ip", f"inet6 {long} scope link", long),
        ("mac", f"ether {hardware}", hardware),
    ]
