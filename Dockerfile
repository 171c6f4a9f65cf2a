# Two stages: the first installs the hashed pins, the second holds Python, them and the code.
FROM python:3.13-slim AS build
WORKDIR /app
COPY requirements.lock ./
# --no-deps: the lock holds the whole tree.
RUN python -m venv /venv \
 && /venv/bin/pip install --no-cache-dir --require-hashes --no-deps -r requirements.lock

FROM python:3.13-slim
RUN useradd --create-home --uid 10001 bridge
COPY --from=build /venv /venv
WORKDIR /app
COPY --chown=bridge manage.py pyproject.toml ./
COPY --chown=bridge bridgeproject bridgeproject
COPY --chown=bridge translator translator
COPY --chown=bridge members members
COPY --chown=bridge keys keys
COPY --chown=bridge usage usage
COPY --chown=bridge demo demo
COPY --chown=bridge templates templates
COPY --chown=bridge static static
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 BRIDGE_DATA_DIR=/data
RUN mkdir /data && chown bridge /data
USER bridge
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/readyz', timeout=3)"]
CMD ["sh", "-c", "python manage.py migrate --no-input && exec python manage.py serve --host 0.0.0.0 --workers ${WORKERS:-2}"]
