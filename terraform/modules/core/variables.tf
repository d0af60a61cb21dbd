variable "create" {
  description = "Make the installation. With false the module makes nothing, asks nothing of AWS, and all outputs are null or empty."
  type        = bool
  default     = true
  nullable    = false
}

variable "prefix" {
  description = "Begins the names of all tables, queues, policies and alarms: 1 to 20 characters of a-z, A-Z, 0-9, - and _. Each installation needs its own, in any region of the account. None may be another one followed by a hyphen, since policies cover `<prefix>-*`."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-zA-Z0-9_-]{1,20}$", var.prefix))
    error_message = "Want a prefix of 1 to 20 characters of a-z, A-Z, 0-9, - and _."
  }
}

variable "billing_mode" {
  description = "`PAY_PER_REQUEST` (on demand) or `PROVISIONED` (by `capacity`, with autoscaling). From one to the other: see Upgrades in the README."
  type        = string
  default     = "PAY_PER_REQUEST"
  nullable    = false

  validation {
    condition     = contains(["PAY_PER_REQUEST", "PROVISIONED"], var.billing_mode)
    error_message = "Want a billing_mode of PAY_PER_REQUEST or PROVISIONED."
  }
}

variable "capacity" {
  description = "With `PROVISIONED`, the least and the most read and write units a second of `schedule`, `tasks`, `tasks_dead` (its index), `payloads` and `control`, such as `{ tasks = { write = { min = 200, max = 10000 } } }`. The README has the defaults; `kinesin cost` computes what a load needs. Ignored with `PAY_PER_REQUEST`."
  type        = map(map(object({ min = number, max = number })))
  default     = {}
  nullable    = false

  # An object type with these names would drop what is not one of them without a word.
  validation {
    condition     = length(setsubtract(keys(var.capacity), ["schedule", "tasks", "tasks_dead", "payloads", "control"])) == 0
    error_message = "Want a capacity of schedule, tasks, tasks_dead, payloads or control; there is no ${join(", ", setsubtract(keys(var.capacity), ["schedule", "tasks", "tasks_dead", "payloads", "control"]))}."
  }

  validation {
    condition     = length(setsubtract(flatten([for of in values(var.capacity) : keys(of) if of != null]), ["read", "write"])) == 0
    error_message = "Want for each table and index a capacity of read, of write or of both; there is no ${join(", ", setsubtract(flatten([for of in values(var.capacity) : keys(of) if of != null]), ["read", "write"]))}."
  }

  validation {
    condition = alltrue(flatten([for of in values(var.capacity) : of == null ? [false] : [
      for units in values(of) : units == null ? false : try(units.min >= 1 && units.max >= units.min && floor(units.min) == units.min && floor(units.max) == units.max, false)
    ]]))
    error_message = "Want for each table and index whole numbers of units with 1 <= min <= max."
  }
}

variable "capacity_target_percent" {
  description = "With `PROVISIONED`, the use of the capacity that autoscaling aims at, 20 to 90 percent. Tasks due at the same instant come before any autoscaling: leave room for them."
  type        = number
  default     = 60
  nullable    = false

  validation {
    condition     = var.capacity_target_percent >= 20 && var.capacity_target_percent <= 90
    error_message = "Want a capacity_target_percent of 20 to 90."
  }
}

variable "deletion_protection" {
  description = "DynamoDB refuses to delete the tables. Turn it off in an apply of its own before `destroy`."
  type        = bool
  default     = true
  nullable    = false
}

variable "point_in_time_recovery" {
  description = "Continuous backups of the last 35 days of all tables, charged by size."
  type        = bool
  default     = true
  nullable    = false
}

variable "kms_key_arn" {
  description = "ARN of a KMS key for tables and queues; null: DynamoDB's own keys and SQS-managed encryption, which cost nothing. Its key policy has to let this account's IAM policies decide. A change takes more than one apply: see Upgrades in the README."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null || can(regex("^arn:aws(-us-gov)?:kms:[^:]*:[0-9]{12}:key/.+$", var.kms_key_arn))
    error_message = "Want a kms_key_arn such as arn:aws:kms:eu-west-1:111122223333:key/1234abcd-…: that of the key, not of an alias, in the partition aws or aws-us-gov."
  }
}

variable "lambda_kms_key_arns" {
  description = "ARNs of the KMS keys that lambdas have for their queues (`kms_key_arn` of the module lambda): the policies let the servers use them. Their key policies have to let this account's IAM policies decide."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for arn in var.lambda_kms_key_arns : can(regex("^arn:aws(-us-gov)?:kms:[^:]*:[0-9]{12}:key/.+$", arn))])
    error_message = "Want lambda_kms_key_arns such as arn:aws:kms:eu-west-1:111122223333:key/1234abcd-…: those of keys, not of aliases, in the partition aws or aws-us-gov."
  }
}

variable "other_kms_key_arns" {
  description = "ARNs of KMS keys of before or after a change of `kms_key_arn`: the policies allow their use too. See Upgrades in the README."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for arn in var.other_kms_key_arns : can(regex("^arn:aws(-us-gov)?:kms:[^:]*:[0-9]{12}:key/.+$", arn))])
    error_message = "Want other_kms_key_arns such as arn:aws:kms:eu-west-1:111122223333:key/1234abcd-…: those of keys, not of aliases, in the partition aws or aws-us-gov."
  }
}

variable "message_bytes_max" {
  description = "Size of the largest message in all queues, 262144 to 1048576 bytes; `serve --message-max` may not be larger. Lower it only where SQS takes no more."
  type        = number
  default     = 1048576
  nullable    = false

  validation {
    condition     = var.message_bytes_max >= 262144 && var.message_bytes_max <= 1048576 && floor(var.message_bytes_max) == var.message_bytes_max
    error_message = "Want a message_bytes_max of 262144, which servers send unless told otherwise, to 1048576 (1 MiB), a whole number."
  }
}

variable "iam_policies" {
  description = "Make the IAM policies. Their documents are outputs in any case."
  type        = bool
  default     = true
  nullable    = false
}

variable "iam_path" {
  description = "Path of the IAM policies, up to 512 characters."
  type        = string
  default     = "/"
  nullable    = false

  validation {
    condition     = can(regex("^/([!-~]{1,510}/)?$", var.iam_path))
    error_message = "Want an iam_path that begins and ends with a slash, of up to 512 characters, such as /kinesin/."
  }
}

variable "servers_create_queues" {
  description = "Let servers with the role `inbound` make the queues of a lambda at `kinesin lambda create`. Leave it off where lambdas come by Terraform."
  type        = bool
  default     = false
  nullable    = false
}

variable "target_function_arns" {
  description = "ARNs of the functions of AWS Lambda that servers may invoke as targets of lambdas, as in `kinesin serve --targets-functions`. `*` stands for any characters, and a version or an alias is part of the ARN. Empty: none."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.target_function_arns) <= 40 && alltrue([for arn in var.target_function_arns : can(regex("^arn:aws[a-z-]*:lambda:[a-z0-9*-]+:[0-9*]+:function:[a-zA-Z0-9$_:*-]+$", arn))])
    error_message = "Want up to 40 target_function_arns that are ARNs of functions, such as arn:aws:lambda:eu-west-1:111122223333:function:mail-*."
  }
}

variable "service_account_role_arn" {
  description = "ARN of the IAM role of the pods' service account, for IAM roles for service accounts: it goes into the output `helm_values`. Null with EKS Pod Identity."
  type        = string
  default     = null

  validation {
    condition     = var.service_account_role_arn == null || can(regex("^arn:[^:]+:iam::[0-9]{12}:role/.+$", var.service_account_role_arn))
    error_message = "Want a service_account_role_arn such as arn:aws:iam::111122223333:role/kinesin."
  }
}

variable "server_principals" {
  description = "ARNs of the IAM roles that servers run with. The queues' policies deny everybody who is not named. `*` stands for any characters. Empty: the roles of this account whose names begin with `<prefix>-`. The role of `service_account_role_arn` is always one of them."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.server_principals) <= 40 && alltrue([for arn in var.server_principals : can(regex("^arn:[^:*?]+:iam::[0-9]{12}:(role|user)/.+$", arn))])
    error_message = "Want up to 40 server_principals that are ARNs of IAM roles, such as arn:aws:iam::111122223333:role/kinesin-*."
  }
}

variable "sender_principals" {
  description = "ARNs of the IAM roles of programs that send into the inbound queue (`sdk/sqsinbound`), of this account or of others; with `:root`, all of an account. They also need the inbound key, and those of other accounts a policy of their own."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.sender_principals) <= 40 && alltrue([for arn in var.sender_principals : can(regex("^arn:[^:*?]+:iam::[0-9]{12}:((role|user)/[^*?]+|root)$", arn))])
    error_message = "Want up to 40 sender_principals that are ARNs such as arn:aws:iam::111122223333:role/shop, without * and ?."
  }
}

variable "operator_principals" {
  description = "ARNs of the IAM roles of people who move messages, such as back from a dead-letter queue. No queue denies them anything; their own policies have to allow it. `*` stands for any characters. Empty: nobody."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.operator_principals) <= 40 && alltrue([for arn in var.operator_principals : can(regex("^arn:[^:*?]+:iam::[0-9]{12}:(role|user)/.+$", arn))])
    error_message = "Want up to 40 operator_principals that are ARNs of IAM roles, such as arn:aws:iam::111122223333:role/oncall."
  }
}

variable "alarms" {
  description = "Make the CloudWatch alarms."
  type        = bool
  default     = true
  nullable    = false
}

variable "alarm_actions" {
  description = "ARNs that are told when an alarm goes off and when it is over, such as the ARN of an SNS topic."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.alarm_actions) <= 5 && alltrue([for arn in var.alarm_actions : can(regex("^arn:.+$", arn))])
    error_message = "Want up to 5 alarm_actions that are ARNs, such as arn:aws:sns:eu-west-1:111122223333:oncall."
  }
}

variable "alarm_thresholds" {
  description = "Thresholds of the alarms: `inbound_age_seconds`, the age of the oldest message in the inbound queue for three minutes (1 to 1209600); `inbound_dlq_messages`, the messages in its dead-letter queue; `throttled_requests`, the requests to a table or an index that DynamoDB throttled in each of three minutes."
  type = object({
    inbound_age_seconds  = optional(number, 120)
    inbound_dlq_messages = optional(number, 0)
    throttled_requests   = optional(number, 10)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.alarm_thresholds.inbound_age_seconds >= 1 && var.alarm_thresholds.inbound_age_seconds <= 1209600
    error_message = "Want alarm_thresholds with an inbound_age_seconds of 1 to 1209600, which is as long as SQS keeps a message."
  }

  validation {
    condition     = var.alarm_thresholds.inbound_dlq_messages >= 0 && var.alarm_thresholds.throttled_requests >= 0
    error_message = "Want alarm_thresholds with inbound_dlq_messages and throttled_requests of 0 or more."
  }
}

variable "dashboard" {
  description = "Make the CloudWatch dashboard `PREFIX-kinesin`. AWS bills 3 USD a month for each beyond the account's first three."
  type        = bool
  default     = false
  nullable    = false
}

variable "tags" {
  description = "Tags of everything that can have tags, besides `kinesin:prefix` and the provider's `default_tags`. Up to 49, of letters, digits, spaces and `_ . : / = + - @`."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = !anytrue([for key in keys(var.tags) : startswith(lower(key), "kinesin:") || startswith(lower(key), "aws:")])
    error_message = "Want tags whose keys do not begin with kinesin:, which the modules set, nor with aws:, which AWS does."
  }

  # What SQS, IAM, DynamoDB and CloudWatch all take.
  validation {
    condition     = alltrue([for key in keys(var.tags) : can(regex("^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]{1,128}$", key))])
    error_message = "Want tags whose keys have 1 to 128 letters, digits, spaces and _ . : / = + - @."
  }

  validation {
    condition     = alltrue([for value in values(var.tags) : can(regex("^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]{0,256}$", value))])
    error_message = "Want tags whose values have up to 256 letters, digits, spaces and _ . : / = + - @, and are not null."
  }

  validation {
    condition     = length(distinct([for key in keys(var.tags) : lower(key)])) == length(var.tags)
    error_message = "Want tags whose keys are unique: two differ in case only, which IAM takes for the same."
  }

  validation {
    condition     = length(var.tags) <= 49
    error_message = "Want up to 49 tags: AWS takes 50, with those that the module sets and those of the provider's default_tags."
  }
}
