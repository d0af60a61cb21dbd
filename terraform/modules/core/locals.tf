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

  provisioned = var.billing_mode == "PROVISIONED"

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

  tables = merge({ for name, table in aws_dynamodb_table.simple : name => table }, { tasks = aws_dynamodb_table.tasks })

  # arn:PARTITION:sqs:REGION:ACCOUNT:NAME
  queue_arn  = split(":", aws_sqs_queue.inbound.arn)
  queues_arn = join(":", concat(slice(local.queue_arn, 0, 5), ["${var.prefix}-*"]))
  # PREFIX-NAME-PRIORITY, and so not PREFIX-inbound.
  lambda_queues_arn = join(":", concat(slice(local.queue_arn, 0, 5), ["${var.prefix}-*-*"]))

  # The dead-letter queues of deliver lambdas. The one of the inbound queue has no such name.
  dead_letter_queues_arn = "${local.lambda_queues_arn}-dlq"
  sqs_region             = local.queue_arn[3]
  table_region           = split(":", aws_dynamodb_table.tasks.arn)[3]
}
