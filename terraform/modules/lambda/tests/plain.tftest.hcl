# The installation without the object of a module core; with a mocked provider, as all tests here.

mock_provider "aws" {
  mock_resource "aws_sqs_queue" {
    defaults = {
      arn = "arn:aws:sqs:eu-west-1:111122223333:any"
      id  = "https://sqs.eu-west-1.amazonaws.com/111122223333/any"
    }
  }

  mock_resource "aws_iam_policy" {
    defaults = {
      arn = "arn:aws:iam::111122223333:policy/any"
    }
  }

  mock_resource "aws_cloudwatch_metric_alarm" {
    defaults = {
      arn = "arn:aws:cloudwatch:eu-west-1:111122223333:alarm:any"
    }
  }

  mock_data "aws_region" {
    defaults = {
      region = "eu-west-1"
    }
  }

  mock_data "aws_caller_identity" {
    defaults = {
      account_id = "111122223333"
    }
  }
}

variables {
  prefix            = "prod"
  inbound_queue_arn = "arn:aws:sqs:eu-west-1:111122223333:prod-inbound"
  name              = "receipts"
}

run "as_with_core" {
  variables {
    core_kms_key_arn    = "arn:aws:kms:eu-west-1:111122223333:key/12345678-1234-1234-1234-123456789012"
    message_bytes_max   = 262144
    server_principals   = ["arn:aws:iam::111122223333:role/prod-*"]
    operator_principals = ["arn:aws:iam::111122223333:role/oncall"]
    alarm_thresholds    = { age_seconds = 60 }
  }

  assert {
    condition     = aws_dynamodb_table_item.registration[0].table_name == "prod-control" && output.queues["high"].name == "prod-receipts-high"
    error_message = "The lambda is of another installation."
  }

  assert {
    condition     = alltrue([for queue in aws_sqs_queue.priority : queue.kms_master_key_id == var.core_kms_key_arn && queue.max_message_size == 262144])
    error_message = "The queues are not as the installation has them."
  }

  assert {
    condition = alltrue([for policy in aws_sqs_queue_policy.priority : [for statement in jsondecode(policy.policy).Statement :
      statement.Condition.ArnNotLike["aws:PrincipalArn"] if statement.Sid == "OnlyNamedReceivers"
    ] == [["arn:aws:iam::111122223333:role/prod-*", "arn:aws:iam::111122223333:role/oncall"]]])
    error_message = "Others than servers and operators may receive."
  }

  assert {
    condition     = strcontains(output.sender_policy_document, var.inbound_queue_arn) && strcontains(output.sender_policy_document, var.core_kms_key_arn)
    error_message = "Senders may not send."
  }

  assert {
    condition     = alltrue([for alarm in aws_cloudwatch_metric_alarm.age : alarm.threshold == 60])
    error_message = "The alarms have other thresholds."
  }
}
