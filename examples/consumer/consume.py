import base64, os, sys, boto3

sqs = boto3.client("sqs", region_name=os.environ["AWS_REGION"])
queue = sqs.get_queue_url(QueueName=sys.argv[1])["QueueUrl"]
while True:
    received = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20, MaxNumberOfMessages=10, MessageAttributeNames=["All"])
    for message in received.get("Messages", []):
        attributes = {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}
        body = message["Body"]
        encoding = attributes.get("kinesin-encoding")
        if encoding == "base64":  # a payload that SQS does not take as text
            body = base64.b64decode(body)
        elif encoding == "empty":  # one of no bytes, which SQS does not take at all
            body = ""
        print(attributes["kinesin-due"], attributes["kinesin-task-id"], body, flush=True)
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])  # else it comes again
