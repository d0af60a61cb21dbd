# With `create = false` nothing is made, with a core and without. A mocked provider says nothing here, since nothing is asked.

mock_provider "aws" {}

variables {
  create = false
  name   = "receipts"
  mode   = "deliver"
}

run "without_core" {
  assert {
    condition = length(concat(
      aws_dynamodb_table_item.registration, terraform_data.settings, terraform_data.fixed, values(aws_sqs_queue.priority), values(aws_sqs_queue.dlq),
      values(aws_sqs_queue_policy.priority), values(aws_sqs_queue_policy.dlq), values(aws_sqs_queue_redrive_allow_policy.dlq), aws_iam_policy.worker,
      aws_iam_policy.sender, values(aws_cloudwatch_metric_alarm.age), values(aws_cloudwatch_metric_alarm.dlq), data.aws_region.current,
      data.aws_caller_identity.current,
    )) == 0
    error_message = "Something is made, or AWS is asked."
  }

  assert {
    condition = alltrue([for value in [
      output.name, output.worker_policy_arn, output.worker_policy_document, output.sender_policy_arn, output.sender_policy_document,
    ] : value == null]) && length(output.queues) + length(output.dlqs) + length(output.alarm_arns) == 0
    error_message = "An output is neither null nor empty."
  }
}

run "with_core" {
  variables {
    core = {
      prefix            = "prod"
      control_table     = "prod-control"
      inbound_queue_arn = "arn:aws:sqs:eu-west-1:111122223333:prod-inbound"
    }
  }

  assert {
    condition     = length(aws_sqs_queue.priority) == 0 && output.name == null
    error_message = "Something is made."
  }
}
