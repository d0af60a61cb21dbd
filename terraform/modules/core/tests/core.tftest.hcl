# `terraform test` in this module: with a mocked provider, so nothing is made and no account is asked.

mock_provider "aws" {
  mock_resource "aws_dynamodb_table" {
    defaults = {
      arn = "arn:aws:dynamodb:eu-west-1:111122223333:table/any"
    }
  }

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
}

variables {
  prefix = "prod"
}

run "defaults" {
  assert {
    condition     = output.table_names == { schedule = "prod-schedule", tasks = "prod-tasks", payloads = "prod-payloads", control = "prod-control" }
    error_message = "The tables have other names."
  }

  assert {
    condition     = aws_dynamodb_table.tasks[0].billing_mode == "PAY_PER_REQUEST" && aws_dynamodb_table.tasks[0].deletion_protection_enabled && aws_dynamodb_table.tasks[0].point_in_time_recovery[0].enabled
    error_message = "The tables are not on demand, protected and backed up."
  }

  assert {
    condition     = length(aws_appautoscaling_target.capacity) == 0
    error_message = "What is on demand is scaled."
  }

  assert {
    condition     = aws_sqs_queue.inbound[0].sqs_managed_sse_enabled && aws_sqs_queue.inbound[0].kms_master_key_id == null
    error_message = "The inbound queue is not encrypted by SQS."
  }

  assert {
    condition     = alltrue([for role, document in output.role_policy_documents : !strcontains(document, "kms:") && !strcontains(document, "CreateQueue")])
    error_message = "Roles may use keys, or make queues, that they do not need."
  }
}

# The condition holds for a request that names no row, unless Null beside it asks for one.
run "no_condition_of_nothing" {
  assert {
    condition = alltrue(flatten([for document in concat(values(output.role_policy_documents), [output.registrar_policy_document]) : [
      for statement in jsondecode(document).Statement : [for operator, of in try(statement.Condition, {}) :
    [for key in keys(of) : try(statement.Condition.Null[key], "") == "false"] if startswith(operator, "ForAllValues:")]]]))
    error_message = "A ForAllValues without its Null."
  }

  assert {
    condition     = length(regexall("ForAllValues:", join("", concat(values(output.role_policy_documents), [output.registrar_policy_document])))) == 4
    error_message = "There are fewer or more ForAllValues than this test knows."
  }
}

run "queues_are_closed" {
  assert {
    condition = alltrue([for sid in ["OnlyNamedSenders", "OnlyNamedReceivers"] : [for statement in jsondecode(aws_sqs_queue_policy.tls["inbound"].policy).Statement :
      statement.Condition.ArnNotLike["aws:PrincipalArn"] if statement.Sid == sid && statement.Effect == "Deny"] == [
    ["arn:aws:iam::111122223333:role/prod-*", "arn:aws:iam::111122223333:role/*/prod-*"]]])
    error_message = "The inbound queue is not that of the account's roles of this prefix alone."
  }

  assert {
    condition     = !strcontains(aws_sqs_queue_policy.tls["inbound"].policy, "Allow") && !strcontains(aws_sqs_queue_policy.tls["inbound_dlq"].policy, "ArnNotLike")
    error_message = "Somebody is allowed whom nobody named."
  }
}

run "queues_are_opened" {
  variables {
    server_principals        = ["arn:aws:iam::111122223333:role/k/servers"]
    service_account_role_arn = "arn:aws:iam::111122223333:role/pods"
    sender_principals        = ["arn:aws:iam::111122223333:role/shop", "arn:aws:iam::444455556666:root"]
    operator_principals      = ["arn:aws:iam::111122223333:role/oncall-*"]
  }

  assert {
    condition = [for statement in jsondecode(aws_sqs_queue_policy.tls["inbound"].policy).Statement : try(statement.Condition.ArnNotLike["aws:PrincipalArn"], [])
      if statement.Sid == "OnlyNamedSenders"][0] == ["arn:aws:iam::111122223333:role/k/servers", "arn:aws:iam::111122223333:role/pods",
    "arn:aws:iam::111122223333:role/oncall-*", "arn:aws:iam::111122223333:role/shop", "arn:aws:iam::444455556666:*"]
    error_message = "Others than those named may send."
  }

  assert {
    condition     = output.lambdas.server_principals == tolist(["arn:aws:iam::111122223333:role/k/servers", "arn:aws:iam::111122223333:role/pods"])
    error_message = "Lambdas learn of other servers."
  }
}

run "senders_by_pattern" {
  command = plan

  variables {
    sender_principals = ["arn:aws:iam::111122223333:role/*"]
  }

  expect_failures = [var.sender_principals]
}

run "servers_of_any_account" {
  command = plan

  variables {
    server_principals = ["arn:aws:iam::*:role/servers"]
  }

  expect_failures = [var.server_principals]
}

run "operators" {
  command = plan

  variables {
    operator_principals = ["oncall"]
  }

  expect_failures = [var.operator_principals]
}

run "nothing_but_the_store" {
  variables {
    alarms       = false
    iam_policies = false
  }

  assert {
    condition     = length(output.alarm_arns) == 0 && length(output.role_policy_arns) == 0 && output.registrar_policy_arn == null && length(output.role_policy_documents) == 3
    error_message = "There is more than was asked for, or the documents are missing."
  }
}

run "thresholds" {
  variables {
    alarm_thresholds = { inbound_age_seconds = 60, throttled_requests = 100 }
  }

  assert {
    condition = (aws_cloudwatch_metric_alarm.inbound_age[0].threshold == 60 && aws_cloudwatch_metric_alarm.inbound_dlq[0].threshold == 0 &&
    alltrue([for alarm in aws_cloudwatch_metric_alarm.throttles : alarm.threshold == 100]))
    error_message = "The alarms have other thresholds."
  }
}

run "prefix" {
  command = plan

  variables {
    prefix = "no.dots"
  }

  expect_failures = [var.prefix]
}

run "capacity" {
  command = plan

  variables {
    capacity = { tasks = { write = { min = 8, max = 7 } } }
  }

  expect_failures = [var.capacity]
}

run "capacity_of_no_table" {
  command = plan

  variables {
    capacity = { task = { write = { min = 7, max = 8 } } }
  }

  expect_failures = [var.capacity]
}

run "capacity_of_no_way" {
  command = plan

  variables {
    capacity = { tasks = { writes = { min = 7, max = 8 } } }
  }

  expect_failures = [var.capacity]
}

run "tags" {
  command = plan

  variables {
    tags = { "kinesin:prefix" = "other" }
  }

  expect_failures = [var.tags]
}

run "the_most_that_AWS_takes" {
  command = plan

  variables {
    iam_path = "/${join("", [for i in range(510) : "p"])}/"
    tags = merge(
      { "Größe 4/2 _.:=+-@" = "Größe 4/2 _.:=+-@", (join("", [for i in range(128) : "k"])) = join("", [for i in range(256) : "v"]), none = "" },
      { for i in range(46) : "t${i}" => "" },
    )
  }
}

run "another_prefix" {
  command = plan

  variables {
    prefix = "other"
  }

  expect_failures = [terraform_data.fixed]
}
