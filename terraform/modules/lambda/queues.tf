# A queue for each priority, and for each of those of a deliver lambda a dead-letter queue. `kinesin aws setup --dry-run` and
# `kinesin lambda create` have the same, and a test compares.

locals {
  deliver = var.mode == "deliver"
  fifo    = var.fifo ? ".fifo" : ""
  tags    = merge(var.tags, { "kinesin:prefix" = local.core.prefix, "kinesin:lambda" = var.name, "kinesin:mode" = var.mode })
  kms_key = var.kms_key_arn != null ? var.kms_key_arn : local.core.kms_key_arn

  queue_names = { for priority in var.priorities : priority => "${local.core.prefix}-${var.name}-${priority}${local.fifo}" if var.create }
  dlq_names   = { for priority, name in local.queue_names : priority => "${trimsuffix(name, local.fifo)}-dlq${local.fifo}" if local.deliver }

  # Messages that no consumer has read or no server has received by then are gone: managed tasks are in the
  # store and sent again.
  retention_managed = 345600
  retention_dlq     = 1209600

  only_tls = {
    Sid       = "OnlyOverTLS"
    Effect    = "Deny"
    Principal = "*"
    Action    = "sqs:*"
    Condition = { Bool = { "aws:SecureTransport" = "false" } }
  }

  # Whoever is not named is denied by the queue itself; core's inbound.tf says why it is written so. Of a managed lambda that goes for
  # those who receive, too: only servers do. Whoever gives out the worker policy chooses the consumers of a
  # deliver lambda. A core of a version that names nobody denies nobody.
  named    = concat(local.core.server_principals, local.core.operator_principals)
  may_send = concat(local.named, [for arn in var.sender_principals : replace(arn, "/:root$/", ":*")])
  only_named = [for of in [
    { sid = "OnlyNamedSenders", actions = ["sqs:SendMessage"], arns = local.may_send, wanted = true },
    { sid = "OnlyNamedReceivers", actions = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:PurgeQueue"], arns = local.named, wanted = !local.deliver },
    ] : {
    Sid       = of.sid
    Effect    = "Deny"
    Principal = "*"
    Action    = of.actions
    Condition = { Bool = { "aws:PrincipalIsAWSService" = "false" }, ArnNotLike = { "aws:PrincipalArn" = of.arns } }
  } if of.wanted && length(local.core.server_principals) > 0]
  # SQS itself puts messages on a dead-letter queue, and nobody else has to.
  only_sqs = [for statement in local.only_named : merge(statement, {
    Condition = merge({ Bool = { "aws:PrincipalIsAWSService" = "false" } }, { for arns in [local.core.operator_principals] : "ArnNotLike" => { "aws:PrincipalArn" = arns } if length(arns) > 0 })
  })]

  # AWS Lambda's event source mapping, and some client libraries at their start, look at the attributes.
  consumer_actions = ["sqs:GetQueueUrl", "sqs:GetQueueAttributes", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"]
}

resource "aws_sqs_queue" "dlq" {
  for_each   = local.dlq_names
  depends_on = [aws_dynamodb_table_item.registration]

  name                              = each.value
  fifo_queue                        = var.fifo
  message_retention_seconds         = local.retention_dlq
  max_message_size                  = local.core.message_bytes_max
  sqs_managed_sse_enabled           = local.kms_key == null ? true : null
  kms_master_key_id                 = local.kms_key
  kms_data_key_reuse_period_seconds = local.kms_key == null ? null : 300
  tags                              = local.tags
}

resource "aws_sqs_queue" "priority" {
  for_each   = local.queue_names
  depends_on = [aws_dynamodb_table_item.registration]

  name                              = each.value
  fifo_queue                        = var.fifo
  visibility_timeout_seconds        = local.deliver ? var.consumer_visibility_timeout_seconds : 30
  message_retention_seconds         = local.deliver ? var.consumer_message_retention_seconds : local.retention_managed
  max_message_size                  = local.core.message_bytes_max
  sqs_managed_sse_enabled           = local.kms_key == null ? true : null
  kms_master_key_id                 = local.kms_key
  kms_data_key_reuse_period_seconds = local.kms_key == null ? null : 300
  tags                              = local.tags

  redrive_policy = local.deliver ? jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dlq[each.key].arn
    maxReceiveCount     = var.consumer_receives_max
  }) : null
}

resource "aws_sqs_queue_redrive_allow_policy" "dlq" {
  for_each = local.dlq_names

  queue_url = aws_sqs_queue.dlq[each.key].id

  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = [aws_sqs_queue.priority[each.key].arn]
  })
}

resource "aws_sqs_queue_policy" "priority" {
  for_each = local.queue_names

  queue_url = aws_sqs_queue.priority[each.key].id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [for statement in concat([local.only_tls], local.only_named) : merge(statement, { Resource = aws_sqs_queue.priority[each.key].arn })],
      [for principals in [var.sender_principals] : {
        Sid       = "Senders"
        Effect    = "Allow"
        Principal = { AWS = principals }
        Action    = ["sqs:GetQueueUrl", "sqs:SendMessage"]
        Resource  = aws_sqs_queue.priority[each.key].arn
      } if length(principals) > 0],
      [for principals in [var.consumer_principals] : {
        Sid       = "Consumers"
        Effect    = "Allow"
        Principal = { AWS = principals }
        Action    = local.consumer_actions
        Resource  = aws_sqs_queue.priority[each.key].arn
      } if length(principals) > 0],
    )
  })
}

resource "aws_sqs_queue_policy" "dlq" {
  for_each = local.dlq_names

  queue_url = aws_sqs_queue.dlq[each.key].id

  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [for statement in concat([local.only_tls], local.only_sqs) : merge(statement, { Resource = aws_sqs_queue.dlq[each.key].arn })]
  })
}
