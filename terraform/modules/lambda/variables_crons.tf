# Crons that fire the lambda, and how they are in its registration (variables_declared.tf).

variable "crons" {
  description = "Crons of the lambda by name, as { nightly = { schedule = \"30 2 * * *\", zone = \"Europe/Berlin\" } }: up to 100, with the settings and defaults of `kinesin cron create` (docs/concepts/crons.md). `start` and `end` are RFC 3339; `payload` is a text, often of jsonencode, in which {{nominal}} becomes the nominal time. A name belongs to one lambda of the installation. Not for mode deliver."
  type = map(object({
    schedule = string
    zone     = optional(string)
    start    = optional(string)
    end      = optional(string)
    gap      = optional(string)
    fold     = optional(string)
    overlap  = optional(string)
    catch_up = optional(string)

    catch_up_max            = optional(number)
    catch_up_within_seconds = optional(number)
    jitter_seconds          = optional(number)
    failures_max            = optional(number)

    priority   = optional(string)
    collection = optional(string)
    tags       = optional(map(string))
    payload    = optional(string)
  }))
  default  = {}
  nullable = false

  validation {
    condition     = length(var.crons) == 0 || var.mode == "managed"
    error_message = "Want no crons for mode deliver, which has none yet."
  }

  validation {
    condition     = length(var.crons) <= 100 && alltrue([for name in keys(var.crons) : can(regex("^[a-zA-Z0-9_-]{1,64}$", name))])
    error_message = "Want up to 100 crons, with names of 1 to 64 characters of a-z, A-Z, 0-9, _ and -."
  }

  # What can be told without a parser; servers say the rest in `kinesin lambda get`.
  validation {
    condition = alltrue([for c in values(var.crons) : anytrue([
      can(regex("^\\s*(\\S+\\s+){4,5}\\S+\\s*$", c.schedule)) && !can(regex("FREQ=", c.schedule)),
      can(regex("^\\s*@(yearly|annually|monthly|weekly|daily|midnight|hourly)\\s*$", c.schedule)),
      can(regex("^\\s*@every\\s+([0-9.]+(ns|us|µs|ms|s|m|h|d))+\\s*$", c.schedule)),
      can(regex("^\\s*(DTSTART\\S*\\s+)?(RRULE:)?(\\S+;)?FREQ=\\S+\\s*$", c.schedule)),
    ])])
    error_message = "Want crons whose schedule has five fields (minute, hour, day of month, month, day of week), six with seconds first, or is @daily or the like, @every with a duration such as @every 90s, or an RRULE."
  }

  validation {
    condition     = alltrue([for c in values(var.crons) : c.zone == null ? true : can(regex("^[A-Za-z0-9_+/-]{1,64}$", c.zone))])
    error_message = "Want crons whose zone is an IANA name such as Europe/Berlin; UTC when null."
  }

  validation {
    condition     = alltrue(flatten([for c in values(var.crons) : [for t in [c.start, c.end] : t == null ? true : can(timeadd(t, "0s"))]]))
    error_message = "Want crons whose start and end are times by RFC 3339, such as 2027-01-31T09:00:00+01:00."
  }

  validation {
    condition     = alltrue([for c in values(var.crons) : c.start == null || c.end == null ? true : try(timecmp(c.start, c.end) < 0, true)])
    error_message = "Want crons whose start is before their end."
  }

  validation {
    condition = alltrue([for c in values(var.crons) :
      contains(["shift", "skip"], coalesce(c.gap, "shift")) && contains(["first", "both"], coalesce(c.fold, "first")) &&
      contains(["skip", "allow", "queue", "cancel", "replace"], coalesce(c.overlap, "skip")) && contains(["none", "last", "all"], coalesce(c.catch_up, "last"))
    ])
    error_message = "Want crons with a gap of shift or skip, a fold of first or both, an overlap of skip, allow, queue, cancel or replace, and a catch_up of none, last or all."
  }

  validation {
    condition = alltrue([for c in values(var.crons) :
      (c.catch_up_max == null && c.catch_up_within_seconds == null || c.catch_up == "all") &&
      (c.catch_up_max == null ? true : c.catch_up_max >= 1 && c.catch_up_max <= 100000 && floor(c.catch_up_max) == c.catch_up_max) &&
      (c.catch_up_within_seconds == null ? true : c.catch_up_within_seconds >= 0.001 && c.catch_up_within_seconds <= 31622400)
    ])
    error_message = "Want crons with a catch_up_max of 1 to 100000, a whole number, and a catch_up_within_seconds of up to 31622400 (366 days), both beside a catch_up of all."
  }

  validation {
    condition = alltrue([for c in values(var.crons) :
      (c.jitter_seconds == null ? true : c.jitter_seconds >= 0 && c.jitter_seconds <= 86400) &&
      (c.failures_max == null ? true : c.failures_max >= 1 && c.failures_max <= 1000 && floor(c.failures_max) == c.failures_max)
    ])
    error_message = "Want crons with a jitter_seconds of 0 to 86400 (a day), and a failures_max of 1 to 1000, a whole number."
  }

  validation {
    condition     = alltrue([for c in values(var.crons) : c.priority == null ? true : contains(var.priorities, c.priority)])
    error_message = "Want crons whose priority is one that the lambda has."
  }

  validation {
    condition     = alltrue([for c in values(var.crons) : length(base64encode(coalesce(c.payload, " "))) <= 87384])
    error_message = "Want crons with a payload of up to 65536 bytes, since each occurrence holds it."
  }
}

locals {
  crons = length(var.crons) == 0 ? null : {
    for name, c in var.crons : name => {
      for setting, value in {
        schedule = c.schedule
        zone     = c.zone
        start    = c.start
        end      = c.end
        gap      = c.gap
        fold     = c.fold
        overlap  = c.overlap
        catch_up = c.catch_up

        # Crons have milliseconds.
        catch_up_max    = c.catch_up_max
        catch_up_within = c.catch_up_within_seconds == null ? null : "${floor(c.catch_up_within_seconds * 1000) / 1000}s"
        jitter          = c.jitter_seconds == null ? null : "${floor(c.jitter_seconds * 1000) / 1000}s"
        failures_max    = c.failures_max

        priority     = c.priority
        collection   = c.collection
        tags         = c.tags
        payload_text = c.payload
      } : setting => value if value != null
    }
  }
}
