# With `create = false` nothing is made, whatever else the call asks for. A mocked provider says nothing here, since nothing is asked.

mock_provider "aws" {}

run "nothing" {
  variables {
    create       = false
    prefix       = "prod"
    billing_mode = "PROVISIONED"
    dashboard    = true
    kms_key_arn  = "arn:aws:kms:eu-west-1:111122223333:key/12345678-1234-1234-1234-123456789012"
  }

  assert {
    condition = length(concat(
      values(aws_dynamodb_table.simple), aws_dynamodb_table.tasks, aws_sqs_queue.inbound, aws_sqs_queue.inbound_dlq, values(aws_sqs_queue_policy.tls),
      aws_sqs_queue_redrive_allow_policy.inbound_dlq, values(aws_iam_policy.role), aws_iam_policy.registrar, values(aws_appautoscaling_target.capacity),
      values(aws_appautoscaling_policy.capacity), aws_cloudwatch_metric_alarm.inbound_age, aws_cloudwatch_metric_alarm.inbound_dlq,
      values(aws_cloudwatch_metric_alarm.throttles), aws_cloudwatch_dashboard.installation, terraform_data.fixed, data.aws_region.current,
    )) == 0
    error_message = "Something is made, or AWS is asked."
  }

  assert {
    condition = alltrue([for value in [
      output.lambdas, output.prefix, output.region, output.helm_values, output.serve_environment, output.inbound_queue, output.inbound_dlq,
      output.registrar_policy_arn, output.registrar_policy_document, output.dashboard_name,
    ] : value == null])
    error_message = "An output is not null."
  }

  assert {
    condition     = alltrue([for values in [output.table_names, output.table_arns, output.role_policy_arns, output.role_policy_documents, output.alarm_arns] : length(values) == 0])
    error_message = "An output is not empty."
  }
}
