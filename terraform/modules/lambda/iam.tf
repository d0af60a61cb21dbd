locals {
  # Messages that were sent before a change of core's key are still under that one.
  kms_statements = [for i, key in distinct(compact(concat([local.kms_key], local.core.other_kms_key_arns))) : {
    Sid       = i == 0 ? "Key" : "Key${i}"
    Effect    = "Allow"
    Action    = ["kms:Decrypt"]
    Resource  = key
    Condition = { StringEquals = { "kms:ViaService" = "sqs.${local.core_region}.amazonaws.com" } }
  }]

  # Workers of a managed lambda call servers, with a token, and AWS never: there is nothing to allow them.
  worker_document = !var.create || !local.deliver ? null : jsonencode({
    Version = "2012-10-17"
    Statement = concat([{
      Sid      = "Consume"
      Effect   = "Allow"
      Action   = local.consumer_actions
      Resource = [for queue in aws_sqs_queue.priority : queue.arn]
    }], local.kms_statements)
  })

  # A program with sdk/sqsinbound. The inbound queue is that of all lambdas: the key that goes with it is what is secret.
  sender_document = !var.create ? null : jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [{
        Sid      = "Schedule"
        Effect   = "Allow"
        Action   = ["sqs:GetQueueUrl", "sqs:SendMessage"]
        Resource = local.core.inbound_queue_arn
      }],
      [for i, key in distinct(compact(concat([local.core.kms_key_arn], local.core.other_kms_key_arns))) : {
        Sid       = i == 0 ? "Key" : "Key${i}"
        Effect    = "Allow"
        Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
        Resource  = key
        Condition = { StringEquals = { "kms:ViaService" = "sqs.${local.core_region}.amazonaws.com" } }
      }],
    )
  })
}

resource "aws_iam_policy" "worker" {
  count = var.create && var.iam_policies && local.deliver ? 1 : 0
  # A name that is taken is refused there, and says so.
  depends_on = [aws_dynamodb_table_item.registration]

  name        = "${local.core.prefix}-${var.name}-worker"
  path        = var.iam_path
  description = "Consume the queues of lambda ${var.name} of ${local.core.prefix}"
  policy      = local.worker_document
  tags        = local.tags
}

resource "aws_iam_policy" "sender" {
  count = var.create && var.iam_policies ? 1 : 0
  # A name that is taken is refused there, and says so.
  depends_on = [aws_dynamodb_table_item.registration]

  name        = "${local.core.prefix}-${var.name}-sender"
  path        = var.iam_path
  description = "Schedule tasks of lambda ${var.name} of ${local.core.prefix} straight into the inbound queue"
  policy      = local.sender_document
  tags        = local.tags
}
