// Package terraform plans and applies terraform/ for tests: by the terraform or tofu on the PATH (or the
// one that KINESIN_TERRAFORM names), else by OpenTofu as tools/tofu/install builds it, and through the
// test-only provider of terraform/internal/provider, on DynamoDB Local and ElasticMQ. It holds the modules to
// what `kinesin aws setup` and `kinesin serve` want, and the provider to the real one's published schema. It
// reaches no AWS account, and no provider registry: what is found in one it only adds (real_test.go), and it
// says so where it could not.
package terraform
