// Package terraform plans and applies terraform/ for tests: by the terraform or tofu on the PATH (or the one
// that KINESIN_TERRAFORM names), else by OpenTofu as tools/tofu/install builds it, and through the test-only
// provider of terraform/internal/provider, on DynamoDB Local and ElasticMQ. It holds the modules to what
// `kinesin aws setup` and `kinesin serve` want, and the provider to the real one's published schema. A proxy
// before the emulators records the calls of each role, and they are replayed against its IAM policy, here and
// by moto's server. It reaches no AWS account. A provider registry only adds to it (TestTheRealProvider), and
// it says so where there is none.
package terraform
