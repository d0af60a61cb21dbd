# While this is here the plan of `terraform destroy` is refused, before anything is deleted. deletion_protection alone refuses at the
# tables, when the lambdas with their queues, the policies and the alarms are gone. To destroy: delete this file, set
# deletion_protection = false, apply, and destroy.

resource "terraform_data" "keep" {
  lifecycle {
    prevent_destroy = true
  }
}
