# The capacity of provisioned tables is autoscaling's after their creation, so it is ignored here. Of an index it cannot be
# ignored alone: all of global_secondary_index is, and a version of this module with another index says so in its upgrade note.
#
# The table tasks comes first of all: a table is never made where one is, while a queue that is there is adopted without a word. So a
# prefix that is taken is refused before anything of its owner's is in this state, from where it would be deleted. The other tables
# come after the inbound queue, so that a destroy comes to them before: where they are protected it ends, and the queue is still
# there with the tasks in it.

resource "aws_dynamodb_table" "simple" {
  for_each = var.create ? local.simple_tables : {}

  name                        = "${var.prefix}-${each.key}"
  billing_mode                = var.billing_mode
  hash_key                    = each.value.hash
  range_key                   = each.value.range
  read_capacity               = local.provisioned ? local.capacity[each.key].read.min : null
  write_capacity              = local.provisioned ? local.capacity[each.key].write.min : null
  deletion_protection_enabled = var.deletion_protection
  tags                        = local.tags

  dynamic "attribute" {
    for_each = compact([each.value.hash, each.value.range])

    content {
      name = attribute.value
      type = "S"
    }
  }

  dynamic "ttl" {
    for_each = compact([each.value.ttl])

    content {
      attribute_name = ttl.value
      enabled        = true
    }
  }

  point_in_time_recovery {
    enabled = var.point_in_time_recovery
  }

  # Always there: without the block the provider leaves a table under the key that it has.
  server_side_encryption {
    enabled     = var.kms_key_arn != null
    kms_key_arn = var.kms_key_arn
  }

  lifecycle {
    ignore_changes = [read_capacity, write_capacity]
  }

  depends_on = [aws_sqs_queue.inbound]
}

resource "aws_dynamodb_table" "tasks" {
  count = var.create ? 1 : 0

  name                        = "${var.prefix}-tasks"
  billing_mode                = var.billing_mode
  hash_key                    = "i"
  read_capacity               = local.provisioned ? local.capacity.tasks.read.min : null
  write_capacity              = local.provisioned ? local.capacity.tasks.write.min : null
  deletion_protection_enabled = var.deletion_protection
  tags                        = local.tags

  dynamic "attribute" {
    for_each = toset(concat(["i"], flatten([for index in values(local.tasks_indexes) : [index.hash, index.range]])))

    content {
      name = attribute.value
      type = "S"
    }
  }

  dynamic "global_secondary_index" {
    for_each = local.tasks_indexes

    content {
      name            = global_secondary_index.key
      hash_key        = global_secondary_index.value.hash
      range_key       = global_secondary_index.value.range
      projection_type = "KEYS_ONLY"
      read_capacity   = local.provisioned ? local.capacity["tasks_${global_secondary_index.key}"].read.min : null
      write_capacity  = local.provisioned ? local.capacity["tasks_${global_secondary_index.key}"].write.min : null
    }
  }

  ttl {
    attribute_name = "x"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = var.point_in_time_recovery
  }

  server_side_encryption {
    enabled     = var.kms_key_arn != null
    kms_key_arn = var.kms_key_arn
  }

  lifecycle {
    ignore_changes = [read_capacity, write_capacity, global_secondary_index]
  }
}
