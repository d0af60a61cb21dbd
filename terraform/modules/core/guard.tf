# The prefix and the region as they were at first: with others Terraform would delete what is there, as far as it is not protected,
# to make another installation. It comes when the first table is this state's, so that a prefix that was taken leaves no guard.

data "aws_region" "current" {}

resource "terraform_data" "fixed" {
  input = {
    prefix = var.prefix
    region = data.aws_region.current.region
  }

  depends_on = [aws_dynamodb_table.tasks]

  lifecycle {
    ignore_changes = [input]

    postcondition {
      condition     = self.output.prefix == var.prefix
      error_message = "This module call made the installation ${self.output.prefix}, and another prefix is another installation, without its tasks: put it back, and make the other one by a module call of its own."
    }

    postcondition {
      condition     = self.output.region == data.aws_region.current.region
      error_message = "This module call made the installation ${var.prefix} in the region ${self.output.region}, and the provider is for ${data.aws_region.current.region}: give the call the provider that it had, and make an installation there by a module call of its own."
    }
  }
}
