# What is scheduled ahead waits here for the store; `kinesin aws setup --dry-run` has the same, and a test compares.

resource "aws_sqs_queue" "inbound_dlq" {
  depends_on = [aws_dynamodb_table.tasks]

  name                              = "${var.prefix}-inbound-dlq"
  message_retention_seconds         = 1209600
  max_message_size                  = var.message_bytes_max
  sqs_managed_sse_enabled           = var.kms_key_arn == null ? true : null
  kms_master_key_id                 = var.kms_key_arn
  kms_data_key_reuse_period_seconds = var.kms_key_arn == null ? null : 300
  tags                              = local.tags
}

resource "aws_sqs_queue" "inbound" {
  name                              = "${var.prefix}-inbound"
  visibility_timeout_seconds        = 30
  message_retention_seconds         = 1209600
  max_message_size                  = var.message_bytes_max
  sqs_managed_sse_enabled           = var.kms_key_arn == null ? true : null
  kms_master_key_id                 = var.kms_key_arn
  kms_data_key_reuse_period_seconds = var.kms_key_arn == null ? null : 300
  tags                              = local.tags

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.inbound_dlq.arn
    maxReceiveCount     = 1000
  })
}

resource "aws_sqs_queue_redrive_allow_policy" "inbound_dlq" {
  queue_url = aws_sqs_queue.inbound_dlq.id

  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = [aws_sqs_queue.inbound.arn]
  })
}

resource "aws_sqs_queue_policy" "tls" {
  for_each = { inbound = aws_sqs_queue.inbound, inbound_dlq = aws_sqs_queue.inbound_dlq }

  queue_url = each.value.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "OnlyOverTLS"
      Effect    = "Deny"
      Principal = "*"
      Action    = "sqs:*"
      Resource  = each.value.arn
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })
}
