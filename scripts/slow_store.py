"""A store that speaks S3 and takes its time: moto's server with one object, each request of which is answered after a delay.

For scripts/bench-manifest.py; runs in the environment of scripts/install-deps.sh clients. Takes the file to store and the milliseconds, prints
its address when it is ready, and ends with its input.
"""
import logging
import pathlib
import sys
import time

import boto3
from moto.moto_server import werkzeug_app
from moto.s3 import models
from moto.server import ThreadedMotoServer

BUCKET, KEY = "disks", "disk.img"
# The account that moto knows by itself.
ACCOUNT = {"aws_access_key_id": "first", "aws_secret_access_key": "first"}


def keep_whole():
    """Moto copies an object from a file for each range that is asked of it; here it is one piece of memory."""
    read, write = models.FakeKey.value.fget, models.FakeKey.value.fset

    def value(key):
        whole = getattr(key, "_whole", None)
        if whole is None or len(whole) != key.contentsize:
            whole = key._whole = read(key)
        return whole

    models.FakeKey.value = property(value, write)


def delayed(seconds):
    """Every request waits, each for itself."""
    answer = werkzeug_app.DomainDispatcherApplication.__call__

    def later(self, environ, start_response):
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            time.sleep(seconds)
        return answer(self, environ, start_response)

    werkzeug_app.DomainDispatcherApplication.__call__ = later


def main():
    content, delay = pathlib.Path(sys.argv[1]).read_bytes(), float(sys.argv[2]) / 1000
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    keep_whole()
    delayed(delay)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    url = "http://%s:%d" % server.get_host_and_port()
    s3 = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **ACCOUNT)
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=content)
    print(url, flush=True)
    sys.stdin.read()


main()
