variable "prefix" {
  description = "Begins the names of everything."
  type        = string
  default     = "demo"
}

variable "server_principals" {
  description = "ARNs of the IAM roles or users that servers run with; empty: the roles of the account whose names begin with the prefix and a hyphen."
  type        = list(string)
  default     = []
}
