# `terraform test` in this module: with a mocked provider, so nothing is made and no account is asked.

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
  core = {
    prefix            = "prod"
    control_table     = "prod-control"
    inbound_queue_arn = "arn:aws:sqs:eu-west-1:111122223333:prod-inbound"
  }
  name = "receipts"
}

run "managed" {
  variables {
    tags = { team = "orders" }
  }

  assert {
    condition     = { for priority, queue in output.queues : priority => queue.name } == { high = "prod-receipts-high", normal = "prod-receipts-normal", low = "prod-receipts-low" }
    error_message = "The queues have other names."
  }

  assert {
    condition     = length(output.dlqs) == 0 && output.worker_policy_document == null && output.worker_policy_arn == null
    error_message = "Workers of a managed lambda need nothing of AWS."
  }

  assert {
    condition     = alltrue([for queue in aws_sqs_queue.priority : queue.visibility_timeout_seconds == 30 && queue.message_retention_seconds == 345600])
    error_message = "The queues are not as servers want them."
  }

  assert {
    condition     = jsondecode(base64decode(substr(jsondecode(aws_dynamodb_table_item.registration[0].item).r.B, 12, -1))).priorities == ["high", "normal", "low"]
    error_message = "The registration has other priorities."
  }

  assert {
    condition     = join(",", keys(jsondecode(base64decode(substr(jsondecode(aws_dynamodb_table_item.registration[0].item).r.B, 12, -1))))) == "format,mode,priorities,shards"
    error_message = "The registration has settings that nobody gave, and that are the servers' to choose."
  }

  assert {
    condition     = alltrue([for queue in aws_sqs_queue.priority : queue.tags["kinesin:lambda"] == "receipts" && queue.tags["team"] == "orders"])
    error_message = "The tags are not those that were asked for."
  }
}

# The core of this file is one of a version that names no servers.
run "a_core_that_names_nobody" {
  assert {
    condition     = alltrue([for policy in aws_sqs_queue_policy.priority : [for statement in jsondecode(policy.policy).Statement : statement.Sid] == ["OnlyOverTLS"]])
    error_message = "Servers that nobody named are denied."
  }
}

run "only_servers" {
  variables {
    core = {
      prefix            = "prod"
      control_table     = "prod-control"
      inbound_queue_arn = "arn:aws:sqs:eu-west-1:111122223333:prod-inbound"
      server_principals = ["arn:aws:iam::111122223333:role/prod-*"]
    }
  }

  assert {
    condition = alltrue([for policy in aws_sqs_queue_policy.priority : [for statement in jsondecode(policy.policy).Statement :
      statement.Condition.ArnNotLike["aws:PrincipalArn"] if contains(["OnlyNamedSenders", "OnlyNamedReceivers"], statement.Sid) && statement.Effect == "Deny"
    ] == [["arn:aws:iam::111122223333:role/prod-*"], ["arn:aws:iam::111122223333:role/prod-*"]]])
    error_message = "Others than servers may send or receive."
  }
}

run "senders_of_a_managed_lambda" {
  command = plan

  variables {
    sender_principals = ["arn:aws:iam::111122223333:role/shop"]
  }

  expect_failures = [var.sender_principals]
}

run "the_most_that_AWS_takes" {
  command = plan

  variables {
    iam_path = "/${join("", [for i in range(510) : "p"])}/"
    tags = merge(
      { "Größe 4/2 _.:=+-@" = "Größe 4/2 _.:=+-@", (join("", [for i in range(128) : "k"])) = join("", [for i in range(256) : "v"]), none = "" },
      { for i in range(44) : "t${i}" => "" },
    )
  }
}

run "shards" {
  command = plan

  variables {
    shards = 0
  }

  expect_failures = [var.shards]
}

run "priorities" {
  command = plan

  variables {
    priorities = ["high", "high"]
  }

  expect_failures = [var.priorities]
}

run "retention" {
  command = plan

  variables {
    retention_seconds = 59
  }

  expect_failures = [var.retention_seconds]
}

run "settings" {
  command = plan

  variables {
    backoff_seconds       = { min = 0.001, max = 2592000 }
    key_retention_seconds = 3600
    poison_bound          = 5
    start_within_seconds  = 1.5
    priority_weights      = { high = 8, low = 1 }
    limit_key_concurrency = 5
    limit_key_rate        = 1.5
    retry_share           = 0.2
    breaker               = { failures = 0.5 }
    target                = { url = "https://mail.example.com/tasks/{key}", slots = 50 }
  }

  assert {
    condition = jsonencode(local.registration) == jsonencode({
      format                = 2
      mode                  = "managed"
      priorities            = ["high", "normal", "low"]
      shards                = 4
      backoff_min           = "0.001s"
      backoff_max           = "2592000s"
      key_retention         = "3600s"
      poison_bound          = 5
      start_within          = "1.5s"
      priority_weights      = { high = 8, low = 1 }
      limit_key_concurrency = 5
      limit_key_rate        = 1.5
      retry_share           = 0.2
      breaker               = { failures = 0.5, window = "60s" }
      target                = { slots = 50, url = "https://mail.example.com/tasks/{key}" }
    })
    error_message = "The registration has other settings."
  }
}

run "quotas" {
  command = plan

  variables {
    quotas = {
      rate              = 100
      burst             = 10
      recovery          = 40
      by_priority       = { low = { rate = 0.5 }, high = { concurrency = 4 } }
      admit_by_identity = { crm = 50 }
    }
  }

  assert {
    condition     = jsonencode(local.registration.quotas) == "[{\"burst\":10,\"rate\":100,\"recovery\":40},{\"concurrency\":4,\"priority\":\"high\"},{\"priority\":\"low\",\"rate\":0.5},{\"admit\":50,\"identity\":\"crm\"}]"
    error_message = "The registration has other quotas, or limits that nobody gave."
  }
}

run "no_quotas" {
  command = plan

  variables {
    quotas = {}
  }

  assert {
    condition     = jsonencode(local.registration.quotas) == "[]"
    error_message = "The registration does not say that the lambda has no quotas."
  }
}

run "a_quota_of_0" {
  command = plan

  variables {
    quotas = { rate = 0 }
  }

  expect_failures = [var.quotas]
}

run "a_quota_of_another_priority" {
  command = plan

  variables {
    quotas = { by_priority = { urgent = { rate = 5 } } }
  }

  expect_failures = [var.quotas]
}

run "poison_bound" {
  command = plan

  variables {
    poison_bound = 1
  }

  expect_failures = [var.poison_bound]
}

run "name" {
  command = plan

  variables {
    name = "no dots."
  }

  expect_failures = [var.name]
}

run "tags" {
  command = plan

  variables {
    tags = { "kinesin:lambda" = "other" }
  }

  expect_failures = [var.tags]
}

run "region" {
  command = plan

  variables {
    core = {
      prefix            = "prod"
      control_table     = "prod-control"
      inbound_queue_arn = "arn:aws:sqs:us-east-1:111122223333:prod-inbound"
    }
  }

  expect_failures = [aws_dynamodb_table_item.registration]
}

run "account" {
  command = plan

  variables {
    core = {
      prefix            = "prod"
      control_table     = "prod-control"
      inbound_queue_arn = "arn:aws:sqs:eu-west-1:444455556666:prod-inbound"
    }
  }

  expect_failures = [aws_dynamodb_table_item.registration]
}
