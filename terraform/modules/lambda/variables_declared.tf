# The objective of the lambda. It is in its registration, as its crons are: servers make both with the lambda, refuse
# calls that would change them, and take them away with it (docs/adr/0018).

variable "objective" {
  description = "Which share of the tasks is to start in time, as { within_seconds = 5, objective = 99 }: `objective` percent start within `within_seconds` (0.001 to 86400) after they are due, over `window_hours` (1 to 2160; 720, 30 days, when null). Null leaves it to `kinesin objective set`, and deletes what this call set before."
  type = object({
    within_seconds = number
    objective      = number
    window_hours   = optional(number)
  })
  default = null

  validation {
    condition     = var.objective == null ? true : var.objective.within_seconds >= 0.001 && var.objective.within_seconds <= 86400
    error_message = "Want an objective with within_seconds of 0.001 to 86400 (a day)."
  }

  validation {
    condition     = var.objective == null ? true : var.objective.objective > 0 && var.objective.objective < 100
    error_message = "Want an objective of more than 0 and less than 100 percent, such as 99.9; 100 would leave no budget."
  }

  validation {
    condition     = var.objective == null ? true : var.objective.window_hours == null ? true : var.objective.window_hours >= 1 && var.objective.window_hours <= 2160 && floor(var.objective.window_hours) == var.objective.window_hours
    error_message = "Want an objective with window_hours of 1 to 2160 (90 days), a whole number."
  }
}
