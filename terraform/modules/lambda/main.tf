# The registration is a row of a kind of its own, which Terraform alone writes and servers only read: they make the lambda from
# it, which has a unique number that no Terraform can draw, and change it when the registration changes (docs/adr/0018).
#
# It comes before all else, though servers take it only when the queues are there: a row is made only where none is, a queue of
# another's is adopted without a word. So a name that is taken is refused before anything of its owner's is touched, and leaves
# nothing behind in the state, neither the guard nor a policy.

locals {
  # The installation, in whichever way the call names it. Without create there may be none, and nobody reads what is made of this.
  core = var.core != null ? var.core : {
    prefix            = var.prefix == null ? "" : var.prefix
    control_table     = "${var.prefix == null ? "" : var.prefix}-control"
    inbound_queue_arn = var.inbound_queue_arn == null ? "arn:::::" : var.inbound_queue_arn
    kms_key_arn       = var.core_kms_key_arn

    other_kms_key_arns = var.other_kms_key_arns
    message_bytes_max  = var.message_bytes_max

    server_principals   = var.server_principals
    operator_principals = var.operator_principals
  }

  # In the JSON of the API, without what nobody gave: that has the servers' default.
  registration = {
    for name, value in {
      format       = 2
      mode         = var.mode
      fifo         = var.fifo ? true : null
      priorities   = var.priorities
      shards       = var.shards
      max_attempts = var.max_attempts
      timeout      = var.timeout_seconds == null ? null : "${var.timeout_seconds}s"
      backoff_min  = var.backoff_seconds == null ? null : "${var.backoff_seconds.min}s"
      backoff_max  = var.backoff_seconds == null ? null : "${var.backoff_seconds.max}s"
      retention    = var.retention_seconds == null ? null : "${var.retention_seconds}s"

      key_retention    = var.key_retention_seconds == null ? null : "${var.key_retention_seconds}s"
      poison_bound     = var.poison_bound
      start_within     = var.start_within_seconds == null ? null : "${var.start_within_seconds}s"
      priority_weights = var.priority_weights

      limit_key_concurrency = var.limit_key_concurrency
      limit_key_rate        = var.limit_key_rate

      retry_share = var.retry_share
      breaker     = var.breaker == null ? null : { failures = var.breaker.failures, window = "${var.breaker.window_seconds}s" }

      target = var.target == null ? null : { for name, value in var.target : name => value if value != null }

      quotas    = local.quotas
      crons     = local.crons
      objective = local.objective
    } : name => value if value != null
  }
  quotas = var.quotas == null ? null : [
    for q in concat(
      [{ for name, value in var.quotas : name => value if !contains(["by_priority", "admit_by_identity"], name) }],
      [for name, q in var.quotas.by_priority : merge(q, { priority = name })],
      [for name, admit in var.quotas.admit_by_identity : { identity = name, admit = admit }],
    ) : { for name, value in q : name => value if value != null } if anytrue([for value in values(q) : value != null])
  ]

  objective = var.objective == null ? null : {
    for setting, value in {
      within    = "${var.objective.within_seconds}s"
      objective = var.objective.objective
      window    = var.objective.window_hours == null ? null : "${var.objective.window_hours}h"
    } : setting => value if value != null
  }

  # Control rows begin with their format, 1, and their version, which is always 1 here: nine bytes, twelve characters.
  row_head = "AQAAAAAAAAAB"

  # arn:PARTITION:sqs:REGION:ACCOUNT:NAME
  core_region  = split(":", local.core.inbound_queue_arn)[3]
  core_account = split(":", local.core.inbound_queue_arn)[4]
}

data "aws_region" "current" {
  count = var.create ? 1 : 0
}

data "aws_caller_identity" "current" {
  count = var.create ? 1 : 0
}

resource "aws_dynamodb_table_item" "registration" {
  count = var.create ? 1 : 0

  table_name = local.core.control_table
  hash_key   = "c"
  range_key  = "n"

  item = jsonencode({
    c = { S = "registration" }
    n = { S = var.name }
    q = { N = "1" }
    r = { B = "${local.row_head}${base64encode(jsonencode(local.registration))}" }
  })

  lifecycle {
    precondition {
      condition     = data.aws_region.current[0].region == local.core_region
      error_message = "The installation ${local.core.prefix} is in the region ${local.core_region}, and the provider of this module call in ${data.aws_region.current[0].region}: configure a provider for ${local.core_region}, and give the call that one."
    }

    # An item of DynamoDB has at most 400 KB.
    precondition {
      condition     = length(base64encode(jsonencode(local.registration))) <= 466000
      error_message = "The registration of ${var.name} has more than 350000 bytes: want fewer crons, or smaller payloads."
    }

    precondition {
      condition     = data.aws_caller_identity.current[0].account_id == local.core_account
      error_message = "The installation ${local.core.prefix} is in the account ${local.core_account}, and the provider of this module call in ${data.aws_caller_identity.current[0].account_id}: lambdas are made in the account of their installation."
    }
  }
}

# The settings once more, and for people alone: in a plan the row is base64, and here it says max_attempts = 5 -> 7.
resource "terraform_data" "settings" {
  count = var.create ? 1 : 0

  input      = local.registration
  depends_on = [aws_dynamodb_table_item.registration]
}

# Settings that can never change, as they were when the name was this call's: Terraform would else delete
# queues of a lambda that servers go on to have. Shards only grow; servers refuse fewer than the lambda ever
# had.
resource "terraform_data" "fixed" {
  count = var.create ? 1 : 0

  input = {
    prefix     = local.core.prefix
    name       = var.name
    mode       = var.mode
    fifo       = var.fifo
    priorities = var.priorities
    shards     = var.shards
  }

  depends_on = [aws_dynamodb_table_item.registration]

  lifecycle {
    ignore_changes = [input]

    postcondition {
      condition     = self.output.prefix == local.core.prefix && self.output.name == var.name
      error_message = "This module call made the lambda ${self.output.name} of ${self.output.prefix}, and a lambda keeps its name: put it back, and make the other lambda by a module call of its own."
    }

    postcondition {
      condition     = self.output.mode == var.mode && join(",", self.output.priorities) == join(",", var.priorities)
      error_message = "Lambda ${var.name} was made with mode ${self.output.mode} and priorities ${join(",", self.output.priorities)}, and these are fixed: put them back, and make another lambda with the new ones by a module call of its own."
    }

    # What an earlier version of this module made has none.
    postcondition {
      condition     = try(self.output.fifo, false) == var.fifo
      error_message = "Lambda ${var.name} was made with ${try(self.output.fifo, false) ? "FIFO" : "standard"} queues, and they keep that: put fifo back, and make another lambda with the other queues by a module call of its own."
    }

    postcondition {
      condition     = var.shards >= self.output.shards
      error_message = "Lambda ${var.name} was made with ${self.output.shards} shards, and shards only grow: want as many, or more."
    }
  }
}
