# A server for the agents of a team: see docs/deploying.md.
FROM python:3.12-slim AS build
WORKDIR /build
COPY . .
RUN python -m venv /opt/guardagent \
    && /opt/guardagent/bin/pip install --no-cache-dir '.[server,postgres,redis,solver,shell,sql]'

FROM python:3.12-slim
COPY --from=build /opt/guardagent /opt/guardagent
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin guardagent \
    && install -d -o 10001 -g 10001 -m 0700 /state
USER 10001:10001
WORKDIR /state
ENV PATH=/opt/guardagent/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
VOLUME /state
EXPOSE 8764
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen(r.Request('http://127.0.0.1:8764/healthz', headers={'Host': 'localhost:8764'}), timeout=4)"]
ENTRYPOINT ["guardagent"]
CMD ["serve", "--settings", "/etc/guardagent/server.yaml", "--tokens", "/state/tokens.db", "--listen", "0.0.0.0:8764", "--insecure", "--json-logs"]
