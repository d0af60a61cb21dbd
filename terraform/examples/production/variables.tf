variable "prefix" {
  description = "Begins the names of everything."
  type        = string
  default     = "prod"
}

variable "capacity" {
  description = "As in the module core."
  type        = any
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

variable "service_account_role_arn" {
  description = "As in the module core."
  type        = string
  default     = null
}

variable "lambdas" {
  description = "The lambdas, by name. What is left out has the default of the module lambda."
  type = map(object({
    team                                = string
    mode                                = optional(string)
    priorities                          = optional(list(string))
    shards                              = optional(number)
    max_attempts                        = optional(number)
    timeout_seconds                     = optional(number)
    backoff_seconds                     = optional(object({ min = number, max = number }))
    retention_seconds                   = optional(number)
    consumer_visibility_timeout_seconds = optional(number)
    consumer_principals                 = optional(list(string))
    age_alarm_seconds                   = optional(number)
  }))
  default = {
    receipts = { team = "orders", shards = 4, max_attempts = 5, timeout_seconds = 60 }
    reports  = { team = "finance", priorities = ["urgent", "bulk"], timeout_seconds = 3600, backoff_seconds = { min = 10, max = 1800 } }
    invoices = { team = "billing", mode = "deliver", priorities = ["normal"], consumer_visibility_timeout_seconds = 120 }
  }
}
