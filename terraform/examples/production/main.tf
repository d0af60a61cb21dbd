# An installation as a platform team has it: provisioned capacity, backups, alarms to an SNS topic, a role for the pods, and
# lambdas by a map, to which a product team adds a line.

terraform {
  required_version = ">= 1.9.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.8, < 7.0"
    }
  }
}

provider "aws" {
  default_tags {
    tags = { service = "kinesin" }
  }
}

resource "aws_sns_topic" "alarms" {
  name = "${var.prefix}-alarms"
}

module "core" {
  source = "../../modules/core"

  prefix                   = var.prefix
  billing_mode             = "PROVISIONED"
  capacity                 = var.capacity
  deletion_protection      = var.deletion_protection
  kms_key_arn              = var.kms_key_arn
  iam_path                 = "/kinesin/"
  service_account_role_arn = var.oidc_provider_arn == null ? null : aws_iam_role.servers.arn
  alarm_actions            = [aws_sns_topic.alarms.arn]
  tags                     = { team = "platform" }
}

module "lambda" {
  source   = "../../modules/lambda"
  for_each = var.lambdas

  core                                = module.core.lambdas
  name                                = each.key
  mode                                = each.value.mode
  priorities                          = each.value.priorities
  shards                              = each.value.shards
  max_attempts                        = each.value.max_attempts
  timeout_seconds                     = each.value.timeout_seconds
  backoff_seconds                     = each.value.backoff_seconds
  retention_seconds                   = each.value.retention_seconds
  consumer_visibility_timeout_seconds = each.value.consumer_visibility_timeout_seconds
  consumer_message_retention_seconds  = each.value.consumer_message_retention_seconds
  consumer_receives_max               = each.value.consumer_receives_max
  consumer_principals                 = each.value.consumer_principals
  iam_path                            = "/kinesin/"
  alarm_actions                       = [aws_sns_topic.alarms.arn]
  age_alarm_seconds                   = each.value.age_alarm_seconds
  tags                                = { team = each.value.team }
}
