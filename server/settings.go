package server

import (
	"encoding/json"
	"net/url"
	"time"
)

// settings returns the configuration without secrets, for `kinesin debug bundle`. Files with secrets are
// named, and not read. Durations are texts.
func (c *Config) settings() map[string]any {
	copied := *c
	copied.Log, copied.LogControl, copied.AuditTo = nil, nil, nil
	copied.OTLPEndpoint = withoutSecrets(c.OTLPEndpoint)
	text, err := json.Marshal(copied) //nolint:staticcheck // the fields with functions are nil
	all := map[string]any{}
	if err != nil || json.Unmarshal(text, &all) != nil {
		return all
	}
	for name, d := range map[string]time.Duration{
		"AuditKeep": c.AuditKeep, "Horizon": c.Horizon, "Window": c.Window, "DrainMax": c.DrainMax, "DeliverDirect": c.DeliverDirect,
	} {
		all[name] = d.String()
	}
	for _, name := range []string{"Log", "LogControl", "AuditTo"} {
		delete(all, name)
	}
	return all
}

// withoutSecrets returns a URL without what may be one: some collectors take a token as the name of a user,
// or as a parameter.
func withoutSecrets(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a URL that cannot be read"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
