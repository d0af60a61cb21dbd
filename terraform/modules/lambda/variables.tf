variable "create" {
  description = "Make the lambda. With false the module makes nothing, asks nothing of AWS, and all outputs are null or empty; `core` may then be null."
  type        = bool
  default     = true
  nullable    = false
}

variable "core" {
  description = "The installation: output `lambdas` of the module `core`. Without it, give `prefix` and `inbound_queue_arn`."
  type = object({
    prefix            = string
    control_table     = string
    inbound_queue_arn = string
    kms_key_arn       = optional(string)

    other_kms_key_arns = optional(list(string), [])
    message_bytes_max  = optional(number, 1048576)

    server_principals   = optional(list(string), [])
    operator_principals = optional(list(string), [])
  })
  default = null

  validation {
    condition     = !var.create || (var.core == null) != (var.prefix == null && var.inbound_queue_arn == null)
    error_message = "Want the installation in one way: core, which is the output `lambdas` of the module core, or prefix and inbound_queue_arn, and ${var.core == null ? "there is neither" : "there are both"}."
  }

  validation {
    condition = (
      var.core == null || var.core_kms_key_arn == null && length(var.other_kms_key_arns) == 0 && var.message_bytes_max == 1048576 &&
      length(var.server_principals) == 0 && length(var.operator_principals) == 0
    )
    error_message = "Want core_kms_key_arn, other_kms_key_arns, message_bytes_max, server_principals and operator_principals only beside prefix and inbound_queue_arn: core has them in it."
  }

  validation {
    condition     = var.core == null || can(regex("^[a-zA-Z0-9_-]{1,20}$", var.core.prefix))
    error_message = "Want a core.prefix of 1 to 20 characters of a-z, A-Z, 0-9, - and _."
  }

  validation {
    condition = var.core == null || (
      can(regex("^arn:[^:]+:sqs:[^:]+:[0-9]{12}:[^:]+$", var.core.inbound_queue_arn)) &&
      try(var.core.control_table == "${var.core.prefix}-control" && endswith(var.core.inbound_queue_arn, ":${var.core.prefix}-inbound"), false)
    )
    error_message = "Want as core the output `lambdas` of the module core: with the prefix prod the control_table prod-control, and an inbound_queue_arn such as arn:aws:sqs:eu-west-1:111122223333:prod-inbound."
  }
}

variable "prefix" {
  description = "Instead of `core`: the prefix of the installation."
  type        = string
  default     = null

  validation {
    condition     = var.prefix == null || can(regex("^[a-zA-Z0-9_-]{1,20}$", var.prefix))
    error_message = "Want a prefix of 1 to 20 characters of a-z, A-Z, 0-9, - and _."
  }
}

variable "inbound_queue_arn" {
  description = "Beside `prefix`: ARN of the inbound queue of the installation, with its region and account."
  type        = string
  default     = null

  validation {
    condition     = (var.inbound_queue_arn == null) == (var.prefix == null)
    error_message = "Want prefix and inbound_queue_arn together: one of them is missing."
  }

  validation {
    condition     = var.inbound_queue_arn == null || var.prefix == null || can(regex("^arn:[^:]+:sqs:[^:]+:[0-9]{12}:${var.prefix}-inbound$", var.inbound_queue_arn))
    error_message = "Want as inbound_queue_arn that of the queue PREFIX-inbound: with the prefix prod such as arn:aws:sqs:eu-west-1:111122223333:prod-inbound."
  }
}

variable "core_kms_key_arn" {
  description = "Beside `prefix`: `kms_key_arn` of the module `core`, when the installation has a KMS key of its own."
  type        = string
  default     = null

  validation {
    condition     = var.core_kms_key_arn == null || can(regex("^arn:aws(-us-gov)?:kms:[^:]*:[0-9]{12}:key/.+$", var.core_kms_key_arn))
    error_message = "Want a core_kms_key_arn such as arn:aws:kms:eu-west-1:111122223333:key/1234abcd-…: that of the key, not of an alias, in the partition aws or aws-us-gov."
  }
}

variable "other_kms_key_arns" {
  description = "Beside `prefix`: as in the module `core`."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for arn in var.other_kms_key_arns : can(regex("^arn:aws(-us-gov)?:kms:[^:]*:[0-9]{12}:key/.+$", arn))])
    error_message = "Want other_kms_key_arns such as arn:aws:kms:eu-west-1:111122223333:key/1234abcd-…: those of keys, not of aliases, in the partition aws or aws-us-gov."
  }
}

variable "message_bytes_max" {
  description = "Beside `prefix`: as in the module `core`."
  type        = number
  default     = 1048576
  nullable    = false

  validation {
    condition     = var.message_bytes_max >= 262144 && var.message_bytes_max <= 1048576 && floor(var.message_bytes_max) == var.message_bytes_max
    error_message = "Want a message_bytes_max of 262144 to 1048576 (1 MiB), a whole number, as in the module core."
  }
}

variable "server_principals" {
  description = "Beside `prefix`: as in the module `core`; the ARNs of the roles of servers. Empty: the queues deny nobody."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for arn in var.server_principals : can(regex("^arn:[^:*?]+:iam::[0-9]{12}:(role|user)/.+$", arn))])
    error_message = "Want server_principals that are ARNs of IAM roles, such as arn:aws:iam::111122223333:role/kinesin-*."
  }
}

variable "operator_principals" {
  description = "Beside `prefix`: as in the module `core`."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for arn in var.operator_principals : can(regex("^arn:[^:*?]+:iam::[0-9]{12}:(role|user)/.+$", arn))])
    error_message = "Want operator_principals that are ARNs of IAM roles, such as arn:aws:iam::111122223333:role/kinesin-*."
  }
}

variable "name" {
  description = "Name of the lambda: 1 to 64 characters of a-z, A-Z, 0-9, _ and -. With prefix and priority it names SQS queues, which may have 80 characters."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-zA-Z0-9_-]{1,64}$", var.name))
    error_message = "Want a name of 1 to 64 characters of a-z, A-Z, 0-9, _ and -."
  }

  validation {
    condition = alltrue([for priority in var.priorities :
    length("${local.core.prefix}-${var.name}-${priority}${var.mode == "deliver" ? "-dlq" : ""}${var.fifo ? ".fifo" : ""}") <= 80])
    error_message = "A queue of this lambda would have a name of more than the 80 characters that SQS allows (prefix-name-priority, and -dlq for mode deliver, and .fifo): shorten the name, its priorities or the prefix."
  }

  validation {
    condition     = !anytrue([for priority in var.priorities : contains(["inbound", "inbound-dlq"], "${var.name}-${priority}")])
    error_message = "A queue of this lambda would be the dead-letter queue of the inbound queue: choose another name."
  }
}

variable "mode" {
  description = "`managed`: workers of Kinesin run its tasks. `deliver`: due tasks go to its queues, for consumers that need no Kinesin. Fixed: a change is refused at plan time."
  type        = string
  default     = "managed"
  nullable    = false

  validation {
    condition     = contains(["managed", "deliver"], var.mode)
    error_message = "Want a mode of managed or deliver."
  }
}

variable "fifo" {
  description = "FIFO queues, which keep the order of each limit key and drop what is sent twice within five minutes. Only for mode deliver. Fixed, as the mode is."
  type        = bool
  default     = false
  nullable    = false

  validation {
    condition     = !var.fifo || var.mode == "deliver"
    error_message = "Want fifo only for mode deliver, whose queues others read."
  }
}

variable "priorities" {
  description = "Priority classes, highest first, 1 to 8; each has a queue. Fixed, as the mode is."
  type        = list(string)
  default     = ["high", "normal", "low"]
  nullable    = false

  validation {
    condition     = length(var.priorities) >= 1 && length(var.priorities) <= 8
    error_message = "Want 1 to 8 priorities."
  }

  validation {
    condition     = length(distinct(var.priorities)) == length(var.priorities)
    error_message = "Want priorities that are unique: one is named twice."
  }

  validation {
    condition     = alltrue([for priority in var.priorities : can(regex("^[a-zA-Z0-9_-]{1,64}$", priority))])
    error_message = "Want priorities of 1 to 64 characters of a-z, A-Z, 0-9, _ and -."
  }

  validation {
    condition     = var.mode != "deliver" || !anytrue([for priority in var.priorities : contains(var.priorities, "${priority}-dlq")])
    error_message = "With mode deliver a priority may not be called as another one with -dlq behind it: that is the name of the other one's dead-letter queue."
  }
}

variable "shards" {
  description = "Partitions for each priority, 1 to 1024, for about 250 tasks a second each. They only grow; new tasks use more of them six minutes later."
  type        = number
  default     = 4
  nullable    = false

  validation {
    condition     = var.shards >= 1 && var.shards <= 1024 && floor(var.shards) == var.shards
    error_message = "Want 1 to 1024 shards, a whole number."
  }
}

variable "max_attempts" {
  description = "How often a task is tried before it is a dead letter, 1 to 1000; 10 when null. Not for mode deliver."
  type        = number
  default     = null

  validation {
    condition     = var.max_attempts == null ? true : var.mode == "managed" && var.max_attempts >= 1 && var.max_attempts <= 1000 && floor(var.max_attempts) == var.max_attempts
    error_message = "Want 1 to 1000 max_attempts, a whole number, and none for mode deliver."
  }
}

variable "timeout_seconds" {
  description = "How long one attempt may take, 0.1 s to 30 days; 900 (15 minutes) when null. Not for mode deliver."
  type        = number
  default     = null

  validation {
    condition     = var.timeout_seconds == null ? true : var.mode == "managed" && var.timeout_seconds >= 0.1 && var.timeout_seconds <= 2592000
    error_message = "Want a timeout_seconds of 0.1 to 2592000 (30 days), and none for mode deliver."
  }
}

variable "backoff_seconds" {
  description = "The shortest and the longest wait between attempts, 1 ms to 30 days; 1 s to 10 minutes when null. Not for mode deliver."
  type        = object({ min = number, max = number })
  default     = null

  validation {
    condition     = var.backoff_seconds == null ? true : var.mode == "managed" && try(var.backoff_seconds.min >= 0.001 && var.backoff_seconds.max >= var.backoff_seconds.min && var.backoff_seconds.max <= 2592000, false)
    error_message = "Want backoff_seconds with 0.001 <= min <= max <= 2592000 (30 days), and none for mode deliver."
  }
}

variable "retention_seconds" {
  description = "How long ended tasks can be asked about, a minute to five years (157680000); 604800 (7 days) when null."
  type        = number
  default     = null

  validation {
    condition     = var.retention_seconds == null ? true : var.retention_seconds >= 60 && var.retention_seconds <= 157680000
    error_message = "Want a retention_seconds of 60 (a minute) to 157680000 (five years)."
  }
}

variable "key_retention_seconds" {
  description = "How long an idempotency key is held after its task ended in success or delivered, a minute to five years (157680000); retention_seconds when null."
  type        = number
  default     = null

  validation {
    condition     = var.key_retention_seconds == null ? true : var.key_retention_seconds >= 60 && var.key_retention_seconds <= 157680000
    error_message = "Want a key_retention_seconds of 60 (a minute) to 157680000 (five years)."
  }
}

variable "poison_bound" {
  description = "How many attempts in a row may be lost with their workers before a task is a dead letter, 2 to 1000; 3 when null. Raise it where workers are often taken away, such as on spot nodes. Not for mode deliver."
  type        = number
  default     = null

  validation {
    condition     = var.poison_bound == null ? true : var.mode == "managed" && var.poison_bound >= 2 && var.poison_bound <= 1000 && floor(var.poison_bound) == var.poison_bound
    error_message = "Want a poison_bound of 2 to 1000, a whole number, and none for mode deliver."
  }
}

variable "start_within_seconds" {
  description = "How long after its due time a task expires that has not started, 1 ms to 365 days; never when null. Not for mode deliver."
  type        = number
  default     = null

  validation {
    condition     = var.start_within_seconds == null ? true : var.mode == "managed" && var.start_within_seconds >= 0.001 && var.start_within_seconds <= 31536000
    error_message = "Want a start_within_seconds of 0.001 to 31536000 (365 days), and none for mode deliver."
  }
}

variable "priority_weights" {
  description = "How starts are shared out between priorities while several wait: in proportion to the weights, each 1 to 1000, as { high = 8, low = 1 }; 1 for a priority that is not named. The highest priority first when null. Not for mode deliver."
  type        = map(number)
  default     = null

  validation {
    condition     = var.priority_weights == null ? true : var.mode == "managed" && length(var.priority_weights) > 0 && alltrue([for name, weight in var.priority_weights : contains(var.priorities, name) && weight >= 1 && weight <= 1000 && floor(weight) == weight])
    error_message = "Want priority_weights of 1 to 1000, whole numbers, for priorities that the lambda has, and none for mode deliver."
  }
}

variable "limit_key_concurrency" {
  description = "How many tasks of one limit key run at once, 1 to 100000; any number when null. Not for mode deliver."
  type        = number
  default     = null

  validation {
    condition     = var.limit_key_concurrency == null ? true : var.mode == "managed" && var.limit_key_concurrency >= 1 && var.limit_key_concurrency <= 100000 && floor(var.limit_key_concurrency) == var.limit_key_concurrency
    error_message = "Want a limit_key_concurrency of 1 to 100000, a whole number, and none for mode deliver."
  }
}

variable "limit_key_rate" {
  description = "How many tasks of one limit key start per second, 0.001 to 1000000; any number when null. Not for mode deliver."
  type        = number
  default     = null

  validation {
    condition     = var.limit_key_rate == null ? true : var.mode == "managed" && var.limit_key_rate >= 0.001 && var.limit_key_rate <= 1000000
    error_message = "Want a limit_key_rate of 0.001 to 1000000, and none for mode deliver."
  }
}

variable "retry_share" {
  description = "How many retries may start for each first start, 0.01 to 10; any number when null. Not for mode deliver."
  type        = number
  default     = null

  validation {
    condition     = var.retry_share == null ? true : var.mode == "managed" && var.retry_share >= 0.01 && var.retry_share <= 10
    error_message = "Want a retry_share of 0.01 to 10, and none for mode deliver."
  }
}

variable "breaker" {
  description = "Circuit breaker: the share of attempts that fail (0.01 to 1) within window_seconds (10 to 3600; 60 when not set) at which the lambda pauses by itself, as { failures = 0.5 }; none when null. Not for mode deliver."
  type = object({
    failures       = number
    window_seconds = optional(number, 60)
  })
  default = null

  validation {
    condition     = var.breaker == null ? true : var.mode == "managed" && var.breaker.failures >= 0.01 && var.breaker.failures <= 1 && var.breaker.window_seconds >= 10 && var.breaker.window_seconds <= 3600
    error_message = "Want a breaker with failures of 0.01 to 1 and window_seconds of 10 to 3600, and none for mode deliver."
  }
}

variable "target" {
  description = "What servers call for each task, so that nobody runs workers: an http or https `url`, or the ARN of an AWS Lambda function; `method` of an http call, POST when not set; `slots`, how many calls each server makes at a time, 1 to 10000 (100 when not set); `async`, for a function: success is that AWS Lambda has the event. Headers and secrets are no matter of a state: `kinesin lambda set` sets them, and they stay while the host does. Not for mode deliver."
  type = object({
    url    = string
    method = optional(string)
    slots  = optional(number)
    async  = optional(bool)
  })
  default = null

  validation {
    condition     = var.target == null ? true : var.mode == "managed" && can(regex("^(https?://.+|arn:aws[a-z-]*:lambda:[a-z0-9-]+:[0-9]{12}:function:[a-zA-Z0-9$_:-]+)$", var.target.url)) && length(var.target.url) <= 2048
    error_message = "Want a target whose url is an http or https URL of at most 2048 bytes, or the ARN of an AWS Lambda function, and none for mode deliver."
  }

  validation {
    condition     = try(var.target.slots, null) == null ? true : var.target.slots >= 1 && var.target.slots <= 10000 && floor(var.target.slots) == var.target.slots
    error_message = "Want a target with slots of 1 to 10000, a whole number."
  }
}

variable "quotas" {
  description = "Limits per second, of all servers together, as { rate = 100, by_priority = { low = { rate = 20 } } }: `rate` is how many tasks start (0.001 to 1000000), `burst` how many at once after a pause (1 to 100000; 100 ms of the rate when null), `concurrency` how many run at once (1 to 100000; not for mode deliver), all three also by priority; `admit` is how many may be scheduled, `admit_by_identity` how many by one identity; `recovery` is the pace of resumed gates and redrives (1 to 1000000). Null leaves quotas to `kinesin quota set`, and removes those that this call set before; {} removes all."
  type = object({
    rate  = optional(number)
    burst = optional(number)
    admit = optional(number)

    concurrency = optional(number)
    recovery    = optional(number)

    by_priority       = optional(map(object({ rate = optional(number), burst = optional(number), concurrency = optional(number) })), {})
    admit_by_identity = optional(map(number), {})
  })
  default = null

  validation {
    condition     = var.quotas == null ? true : alltrue([for rate in concat([var.quotas.rate, var.quotas.admit], [for q in values(var.quotas.by_priority) : q.rate], values(var.quotas.admit_by_identity)) : rate == null ? true : rate >= 0.001 && rate <= 1000000])
    error_message = "Want quotas whose rates and admits are 0.001 to 1000000 per second; leave one out, or null, for no limit."
  }

  validation {
    condition     = var.quotas == null ? true : alltrue([for q in concat([{ rate = var.quotas.rate, burst = var.quotas.burst }], values(var.quotas.by_priority)) : q.burst == null ? true : q.rate != null && q.burst >= 1 && q.burst <= 100000 && floor(q.burst) == q.burst])
    error_message = "Want quotas whose bursts are 1 to 100000, whole numbers, each beside a rate."
  }

  validation {
    condition     = var.quotas == null ? true : alltrue([for name, q in var.quotas.by_priority : contains(var.priorities, name) && (q.rate != null || q.concurrency != null)])
    error_message = "Want quotas.by_priority with a rate or a concurrency each, for priorities that the lambda has."
  }

  validation {
    condition     = var.quotas == null ? true : alltrue([for n in concat([var.quotas.concurrency], [for q in values(var.quotas.by_priority) : q.concurrency]) : n == null ? true : var.mode == "managed" && n >= 1 && n <= 100000 && floor(n) == n])
    error_message = "Want quotas whose concurrency is 1 to 100000, a whole number, and none for mode deliver."
  }

  validation {
    condition     = var.quotas == null ? true : var.quotas.recovery == null ? true : var.quotas.recovery >= 1 && var.quotas.recovery <= 1000000 && floor(var.quotas.recovery) == var.quotas.recovery
    error_message = "Want quotas whose recovery is 1 to 1000000 tasks a second, a whole number."
  }

  validation {
    condition     = var.quotas == null ? true : length(var.quotas.by_priority) + length(var.quotas.admit_by_identity) < 100 && alltrue([for name, admit in var.quotas.admit_by_identity : length(name) >= 1 && length(name) <= 256 && admit != null])
    error_message = "Want quotas.admit_by_identity with names of 1 to 256 characters, and at most 99 of them and of priorities."
  }
}

variable "consumer_visibility_timeout_seconds" {
  description = "How long SQS hides a received message that is not deleted, 0 to 43200. Only for mode deliver; queues of managed lambdas have 30 s."
  type        = number
  default     = 30
  nullable    = false

  validation {
    condition     = var.consumer_visibility_timeout_seconds >= 0 && var.consumer_visibility_timeout_seconds <= 43200 && floor(var.consumer_visibility_timeout_seconds) == var.consumer_visibility_timeout_seconds && (var.mode == "deliver" || var.consumer_visibility_timeout_seconds == 30)
    error_message = "Want a consumer_visibility_timeout_seconds of 0 to 43200 (12 hours), a whole number, and only for mode deliver."
  }
}

variable "consumer_message_retention_seconds" {
  description = "How long SQS keeps a message that no consumer deleted, 60 to 1209600 (14 days). Only for mode deliver; the dead-letter queue always keeps 14 days."
  type        = number
  default     = 1209600
  nullable    = false

  validation {
    condition     = var.consumer_message_retention_seconds >= 60 && var.consumer_message_retention_seconds <= 1209600 && floor(var.consumer_message_retention_seconds) == var.consumer_message_retention_seconds && (var.mode == "deliver" || var.consumer_message_retention_seconds == 1209600)
    error_message = "Want a consumer_message_retention_seconds of 60 to 1209600 (14 days), a whole number, and only for mode deliver."
  }
}

variable "consumer_receives_max" {
  description = "How often a message is received and not deleted before it goes to the dead-letter queue, 1 to 1000. Only for mode deliver."
  type        = number
  default     = 10
  nullable    = false

  validation {
    condition     = var.consumer_receives_max >= 1 && var.consumer_receives_max <= 1000 && floor(var.consumer_receives_max) == var.consumer_receives_max && (var.mode == "deliver" || var.consumer_receives_max == 10)
    error_message = "Want a consumer_receives_max of 1 to 1000, a whole number, and only for mode deliver."
  }
}

variable "sender_principals" {
  description = "ARNs of IAM roles, of this account or of others, that may put messages of their own on the queues of a deliver lambda; with `:root`, all of an account. Those of other accounts need a policy of their own, too. Only for mode deliver."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.sender_principals) == 0 || var.mode == "deliver" && length(var.sender_principals) <= 40 && alltrue([for arn in var.sender_principals : can(regex("^arn:[^:*?]+:iam::[0-9]{12}:((role|user)/[^*?]+|root)$", arn))])
    error_message = "Want up to 40 sender_principals that are ARNs such as arn:aws:iam::111122223333:role/shop, without * and ?, and only for mode deliver."
  }
}

variable "consumer_principals" {
  description = "ARNs of IAM principals of other accounts that the queue policies let consume; with a KMS key, its key policy has to let them decrypt. Those of this account need only the worker policy. Only for mode deliver."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.consumer_principals) == 0 || var.mode == "deliver" && alltrue([for arn in var.consumer_principals : can(regex("^arn:[^:]+:(iam|sts)::[0-9]{12}:.+$", arn))])
    error_message = "Want consumer_principals that are ARNs such as arn:aws:iam::111122223333:role/billing, and only for mode deliver."
  }
}

variable "kms_key_arn" {
  description = "ARN of a KMS key for the queues, instead of core's or SQS-managed encryption. Name it in `lambda_kms_key_arns` of the module core, which lets the servers use it."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null || can(regex("^arn:aws(-us-gov)?:kms:[^:]*:[0-9]{12}:key/.+$", var.kms_key_arn))
    error_message = "Want a kms_key_arn such as arn:aws:kms:eu-west-1:111122223333:key/1234abcd-…: that of the key, not of an alias, in the partition aws or aws-us-gov."
  }
}

variable "iam_policies" {
  description = "Make the IAM policies. The documents are outputs in any case."
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

variable "alarms" {
  description = "Make the CloudWatch alarms: age of the oldest message, and dead-letter queues that are not empty."
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
  description = "Thresholds of the alarms: `age_seconds`, the age of the oldest message of a queue for three minutes (1 to 1209600); `dlq_messages`, the messages in a dead-letter queue. When null `age_seconds` is 300 for mode managed; for mode deliver 1200 more than the consumer's visibility timeout, and at least 1800, since servers send up to 15 minutes ahead."
  type = object({
    age_seconds  = optional(number)
    dlq_messages = optional(number, 0)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.alarm_thresholds.age_seconds == null ? true : var.alarm_thresholds.age_seconds >= 1 && var.alarm_thresholds.age_seconds <= 1209600
    error_message = "Want alarm_thresholds with an age_seconds of 1 to 1209600, which is as long as SQS keeps a message."
  }

  validation {
    condition     = var.alarm_thresholds.dlq_messages >= 0
    error_message = "Want alarm_thresholds with dlq_messages of 0 or more."
  }
}

variable "tags" {
  description = "Tags of everything that can have tags, besides `kinesin:prefix`, `kinesin:lambda`, `kinesin:mode` and the provider's `default_tags`. Up to 47, of letters, digits, spaces and `_ . : / = + - @`."
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
    condition     = length(var.tags) <= 47
    error_message = "Want up to 47 tags: AWS takes 50, with those that the module sets and those of the provider's default_tags."
  }
}
