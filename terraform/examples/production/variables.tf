variable "prefix" {
  description = "Begins the names of everything."
  type        = string
  default     = "prod"
}

variable "capacity" {
  description = "As in the module core."
  type        = map(map(object({ min = number, max = number })))
  # A managed task takes 2 write units on schedule and 3 on tasks. A lack of one slows the other down.
  default = {
    schedule = { write = { min = 100, max = 5000 }, read = { min = 50, max = 1000 } }
    tasks    = { write = { min = 200, max = 10000 } }
  }
}

variable "deletion_protection" {
  description = "As in the module core."
  type        = bool
  default     = true
}

variable "kms_key_arn" {
  description = "As in the module core."
  type        = string
  default     = null
}

variable "oidc_provider_arn" {
  description = "ARN of the cluster's OIDC provider in IAM, for IAM roles for service accounts; null: EKS Pod Identity."
  type        = string
  default     = null
}

variable "cluster_name" {
  description = "Name of the EKS cluster, for an association of EKS Pod Identity; null: there is none, or it is made elsewhere."
  type        = string
  default     = null
}

variable "operator_principals" {
  description = "As in the module core."
  type        = list(string)
  default     = []
}

variable "namespace" {
  description = "Namespace of the Helm release."
  type        = string
  default     = "kinesin"
}

variable "service_account" {
  description = "Name of the pods' service account: that of the Helm release, unless the chart's values say another one."
  type        = string
  default     = "kinesin"
}

# Of type any, with the keys checked: a map of objects would drop a setting whose name is mistyped, without a word. The module
# checks the values, and their types.
variable "lambdas" {
  description = "The lambdas, by name: the team, and what is not to have the default of the module lambda."
  type        = any
  default = {
    receipts = { team = "orders", shards = 4, max_attempts = 5, timeout_seconds = 60 }
    reports  = { team = "finance", priorities = ["urgent", "bulk"], timeout_seconds = 3600, backoff_seconds = { min = 10, max = 1800 } }
    invoices = { team = "billing", mode = "deliver", priorities = ["normal"], consumer_visibility_timeout_seconds = 120 }
  }

  validation {
    condition     = can(keys(var.lambdas)) && try(alltrue([for name, lambda in var.lambdas : can(keys(lambda)) && try(length(tostring(lambda.team)) > 0, false)]), false)
    error_message = "Want for each lambda an object with its team, such as { receipts = { team = \"orders\" } }."
  }

  validation {
    condition     = length(setsubtract(try(flatten([for name, lambda in var.lambdas : keys(lambda)]), []), local.settings)) == 0
    error_message = "There is no setting ${join(", ", setsubtract(try(flatten([for name, lambda in var.lambdas : keys(lambda)]), []), local.settings))}: want of each lambda team, and any of ${join(", ", setsubtract(local.settings, ["team"]))}."
  }

  validation {
    condition     = length(distinct(try([for name in keys(var.lambdas) : lower(name)], []))) == try(length(keys(var.lambdas)), 0)
    error_message = "Two lambdas have names that differ in case only: IAM takes the names of their policies for the same. Rename one of them."
  }

  # Of a deliver lambda also the dead-letter queues.
  validation {
    condition = length(distinct(try(flatten([for name, lambda in var.lambdas : [for priority in try(coalesce(lambda.priorities), ["high", "normal", "low"]) :
      concat(["${name}-${priority}"], try(lambda.mode, null) == "deliver" ? ["${name}-${priority}-dlq"] : [])]]), []))) == length(
      try(flatten([for name, lambda in var.lambdas : [for priority in try(coalesce(lambda.priorities), ["high", "normal", "low"]) :
    concat(["${name}-${priority}"], try(lambda.mode, null) == "deliver" ? ["${name}-${priority}-dlq"] : [])]]), []))
    error_message = "Two lambdas would have a queue of one name (name-priority, or name-priority-dlq for mode deliver): rename one of them."
  }
}

locals {
  settings = [
    "team", "mode", "priorities", "shards", "max_attempts", "timeout_seconds", "backoff_seconds", "retention_seconds", "alarm_thresholds",
    "consumer_visibility_timeout_seconds", "consumer_message_retention_seconds", "consumer_receives_max", "sender_principals", "consumer_principals",
  ]
}
