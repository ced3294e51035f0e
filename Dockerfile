# The operator's image: an interpreter, the locked dependencies without what the operator never loads, the wheel, and the
# shared libraries that these need. No shell, no package manager, nothing that installs or compiles
# (docs/development/adr/0025-simulator-test-bed-and-image.md). It runs as any user on a read-only root file system. A release is
# made only once the base image has a digest (docs/development/release.md).

FROM python:3.12-slim AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
COPY requirements/build.txt requirements/runtime.txt requirements/
RUN pip install --require-hashes --only-binary :all: -r requirements/build.txt \
 && python -m venv --without-pip /opt/charterer \
 && pip --python /opt/charterer/bin/python install --no-compile --require-hashes --only-binary :all: \
    -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY operator operator
RUN python -m hatchling build --target wheel \
 && pip --python /opt/charterer/bin/python install --no-compile --no-deps --no-index dist/*.whl
COPY image image
RUN /opt/charterer/bin/python image/prune.py /opt/charterer/lib/python3.*/site-packages \
 && python image/root.py /image /opt/charterer
# The image is used before there is one: what fails here is not published. What was loaded is compiled, so that the
# operator starts in a third of the time; the checks of compiled files are off, because nobody can change their sources.
RUN SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt OPENBLAS_NUM_THREADS=1 \
    chroot --userspec=65532:65532 /image /opt/charterer/bin/python -I - < image/exercise.py > /tmp/loaded \
 && chroot /image /opt/charterer/bin/python -m compileall -q --invalidation-mode unchecked-hash -i - < /tmp/loaded

FROM scratch
COPY --from=build /image /
COPY LICENSE NOTICE /usr/share/doc/charterer/
ENV PATH=/opt/charterer/bin:/usr/local/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
# One thread for linear algebra: the matrices are small, and threads would only wait for each other.
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 OPENBLAS_NUM_THREADS=1
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["charterer"]
