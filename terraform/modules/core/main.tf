locals {
  tags = merge(var.tags, { "kinesin:prefix" = var.prefix })

  # A key is a hash part and a range part, both text. `kinesin aws setup --dry-run` has the same, and a test compares.
  simple_tables = {
    schedule = { hash = "p", range = "k", ttl = null }
    payloads = { hash = "i", range = null, ttl = "x" }
    control  = { hash = "c", range = "n", ttl = null }
  }
  tasks_indexes = {
    dead = { hash = "d", range = "e" }
  }

  provisioned = var.create && var.billing_mode == "PROVISIONED"

  # Defaults for values that var.capacity does not give; the README has it too.
  capacity_presets = {
    schedule   = { read = { min = 5, max = 1000 }, write = { min = 5, max = 1000 } }
    tasks      = { read = { min = 5, max = 1000 }, write = { min = 5, max = 3000 } }
    tasks_dead = { read = { min = 1, max = 100 }, write = { min = 5, max = 3000 } }
    payloads   = { read = { min = 1, max = 1000 }, write = { min = 1, max = 1000 } }
    control    = { read = { min = 5, max = 200 }, write = { min = 5, max = 200 } }
  }
  capacity = {
    for name, preset in local.capacity_presets : name => { for way, units in preset : way => try(var.capacity[name][way], units) }
  }

  # Without create there are none, and nobody reads what the locals below are made of.
  tables = merge(aws_dynamodb_table.simple, { for table in aws_dynamodb_table.tasks : "tasks" => table })

  # arn:PARTITION:sqs:REGION:ACCOUNT:NAME
  queue_arn  = split(":", var.create ? aws_sqs_queue.inbound[0].arn : "arn:::::")
  queues_arn = join(":", concat(slice(local.queue_arn, 0, 5), ["${var.prefix}-*"]))
  # PREFIX-NAME-PRIORITY, and so not PREFIX-inbound.
  lambda_queues_arn = join(":", concat(slice(local.queue_arn, 0, 5), ["${var.prefix}-*-*"]))

  # The dead-letter queues of deliver lambdas. The one of the inbound queue has no such name.
  dead_letter_queue_arns = ["${local.lambda_queues_arn}-dlq", "${local.lambda_queues_arn}-dlq.fifo"]
  sqs_region             = local.queue_arn[3]
  table_region           = split(":", var.create ? aws_dynamodb_table.tasks[0].arn : "arn:::::")[3]
}

# The prefix and the region as they were at first: with others Terraform would delete what is there, as far as it is not protected,
# to make another installation. It comes when the first table is this state's, so that a prefix that was taken leaves no guard.

data "aws_region" "current" {
  count = var.create ? 1 : 0
}

resource "terraform_data" "fixed" {
  count = var.create ? 1 : 0

  input = {
    prefix = var.prefix
    region = data.aws_region.current[0].region
  }

  depends_on = [aws_dynamodb_table.tasks]

  lifecycle {
    ignore_changes = [input]

    postcondition {
      condition     = self.output.prefix == var.prefix
      error_message = "This module call made the installation ${self.output.prefix}, and another prefix is another installation, without its tasks: put it back, and make the other one by a module call of its own."
    }

    postcondition {
      condition     = self.output.region == data.aws_region.current[0].region
      error_message = "This module call made the installation ${var.prefix} in the region ${self.output.region}, and the provider is for ${data.aws_region.current[0].region}: give the call the provider that it had, and make an installation there by a module call of its own."
    }
  }
}
