"""A store that speaks S3 for the tests of `serve`: moto's server with one bucket, an account, and objects.

Takes the file to store, and a folder. Prints one line of JSON when it is ready: its address, the names of the objects, and
the account's keys, whose signatures it checks. Then it does what its standard input says, a word a line, and answers
each with a line; it ends with its input.
"""

import json
import os
import sys

# The first requests make an account; from then on every request needs a signature of one.
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "3"

import logging

import boto3
from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
PART = 5 << 20  # the smallest part of an object in parts
out, sys.stdout = sys.stdout, sys.stderr
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
url = "http://%s:%d" % server.get_host_and_port()
how = dict(endpoint_url=url, region_name="eu-west-1", aws_access_key_id="first", aws_secret_access_key="first")
iam = boto3.client("iam", **how)
rule = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
iam.create_user(UserName="reader")
key = iam.create_access_key(UserName="reader")["AccessKey"]
iam.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=json.dumps(rule))
how.update(aws_access_key_id=key["AccessKeyId"], aws_secret_access_key=key["SecretAccessKey"])
s3 = boto3.client("s3", **how)
s3.create_bucket(Bucket="disks", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})


def put_in_parts(name, body):
    upload = s3.create_multipart_upload(Bucket="disks", Key=name)["UploadId"]
    parts = []
    for number, at in enumerate(range(0, len(body), PART), 1):
        part = dict(Bucket="disks", Key=name, UploadId=upload, PartNumber=number)
        parts.append({"PartNumber": number, "ETag": s3.upload_part(Body=body[at : at + PART], **part)["ETag"]})
    done = dict(Bucket="disks", Key=name, UploadId=upload, MultipartUpload={"Parts": parts})
    return s3.complete_multipart_upload(**done)["ETag"]


with open(sys.argv[1], "rb") as file:
    content = file.read()
whole = s3.put_object(Bucket="disks", Key="a folder/whole.img", Body=content)["ETag"]
parts = put_in_parts("parts.img", content)
s3.put_object(Bucket="disks", Key="empty.img", Body=b"")
ready = {"url": url, "whole": whole, "parts": parts, "id": key["AccessKeyId"], "secret": key["SecretAccessKey"]}
print(json.dumps(ready), file=out, flush=True)
for word in sys.stdin:
    if word.strip() == "replace":
        put_in_parts("parts.img", bytes(len(content)))
    elif word.strip() == "remove":
        s3.delete_object(Bucket="disks", Key="a folder/whole.img")
    print("done", file=out, flush=True)
