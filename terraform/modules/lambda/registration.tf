# The registration is a row of a kind of its own, which Terraform alone writes and servers only read: they make the lambda from
# it, which has a unique number that no Terraform can draw, and change it when the registration changes (docs/adr/0018).

locals {
  registration = {
    for name, value in {
      format         = 1
      mode           = var.mode
      priorities     = var.priorities
      shards         = var.shards
      max_attempts   = var.max_attempts
      timeout_us     = var.timeout_seconds == null ? null : floor(var.timeout_seconds * 1000000)
      backoff_min_us = var.backoff_seconds == null ? null : floor(var.backoff_seconds.min * 1000000)
      backoff_max_us = var.backoff_seconds == null ? null : floor(var.backoff_seconds.max * 1000000)
      retention_us   = floor(var.retention_seconds * 1000000)
    } : name => value if value != null
  }

  # Control rows begin with their format, 1, and their version, which is always 1 here: nine bytes, twelve characters.
  row_head = "AQAAAAAAAAAB"
}

resource "aws_dynamodb_table_item" "registration" {
  table_name = var.core.control_table
  hash_key   = "c"
  range_key  = "n"

  item = jsonencode({
    c = { S = "registration" }
    n = { S = var.name }
    q = { N = "1" }
    r = { B = "${local.row_head}${base64encode(jsonencode(local.registration))}" }
  })

  # Servers take a lambda in only when its queues are there, and refuse to start when they miss one.
  depends_on = [aws_sqs_queue.priority, aws_sqs_queue.dlq]
}
