package server

import (
	"fmt"
	"strings"
	"testing"
)

func TestSettingsHaveNoSecrets(t *testing.T) {
	for _, endpoint := range []string{"https://canary@otlp.example:4318", "https://me:canary@otlp.example", "https://otlp.example/v1?key=canary#canary", "http://otlp.example/%zz?canary"} {
		shown := fmt.Sprint((&Config{OTLPEndpoint: endpoint}).settings())
		if strings.Contains(shown, "canary") {
			t.Errorf("%s: %s", endpoint, shown)
		}
	}
	if got := (&Config{OTLPEndpoint: "http://127.0.0.1:4318/otlp"}).settings()["OTLPEndpoint"]; got != "http://127.0.0.1:4318/otlp" {
		t.Errorf("%v", got)
	}
}
