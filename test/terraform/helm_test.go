package terraform_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/test/chart"
)

// TestHelmValues has the chart take the output helm_values as it is, with EKS Pod Identity and with IAM roles
// for service accounts.
func TestHelmValues(t *testing.T) {
	chart.Program(t, "helm") // built before the time counts; not under -short
	w := newWorkspace(t, "examples/production")
	w.env = append(w.env, "TF_VAR_deletion_protection=false") // so that the tables can be deleted after the test
	for _, c := range []struct {
		name, provider, annotation string
	}{
		{name: "pod identity"},
		{
			"service accounts", "arn:aws:iam::111122223333:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/0123",
			"eks.amazonaws.com/role-arn: arn:aws:iam::000000000000:role/kinesin/" + w.prefix + "-all",
		},
	} {
		args := []string{"-var", "lambdas={}"}
		if c.provider != "" {
			args = append(args, "-var", "oidc_provider_arn="+c.provider)
		}
		w.apply(args...)
		values := filepath.Join(t.TempDir(), "values.json")
		if err := os.WriteFile(values, []byte(w.must("output", "-json", "helm_values")), 0o600); err != nil {
			t.Fatal(err)
		}
		objects := chart.Render(t, "kinesin", "kinesin", "--values", values,
			"--set", "auth.secretName=kinesin-auth", "--set", "tls.secretName=kinesin-tls")
		for _, want := range []string{"{name: KINESIN_STORE, value: dynamodb}", `{name: KINESIN_AWS_PREFIX, value: "` + w.prefix + `"}`, `{name: AWS_REGION, value: "us-east-1"}`, c.annotation} {
			if !strings.Contains(objects, want) {
				t.Errorf("%s: no %s in\n%s", c.name, want, objects)
			}
		}
		if strings.Contains(objects, "role-arn") != (c.annotation != "") {
			t.Errorf("%s: the service account's role is that of the other way:\n%s", c.name, objects)
		}
	}
}
