# The operator's image: the locked dependencies and the wheel in a virtual environment, nothing that installs or compiles.
# It runs as any user on a read-only root file system. A release is made only once both base images have a digest
# (docs/development/release.md).

FROM python:3.12-slim AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements/build.txt requirements/runtime.txt requirements/
RUN pip install --require-hashes --only-binary :all: -r requirements/build.txt \
 && python -m venv --without-pip /opt/charterer \
 && pip --python /opt/charterer/bin/python install --require-hashes --only-binary :all: -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY operator operator
RUN python -m hatchling build --target wheel \
 && pip --python /opt/charterer/bin/python install --no-deps --no-index dist/*.whl

FROM python:3.12-slim
RUN pip uninstall --yes pip && rm -rf /usr/local/lib/python3.*/ensurepip /root/.cache
COPY --from=build /opt/charterer /opt/charterer
COPY LICENSE NOTICE /usr/share/doc/charterer/
# One thread for linear algebra: the matrices are small, and threads would only wait for each other.
ENV PATH=/opt/charterer/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 OPENBLAS_NUM_THREADS=1
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["charterer"]
