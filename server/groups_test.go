package server

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
)

const (
	createGroup = kinesinv1connect.GroupServiceCreateGroupProcedure
	addMembers  = kinesinv1connect.GroupServiceAddMembersProcedure
	sealGroup   = kinesinv1connect.GroupServiceSealGroupProcedure
	cancelGroup = kinesinv1connect.GroupServiceCancelGroupProcedure
	getGroup    = kinesinv1connect.GroupServiceGetGroupProcedure
	listMembers = kinesinv1connect.GroupServiceListMembersProcedure
)

// A grant is asked for when a lambda is named: of a follow-up when the group is made, of a member when it is
// added. A group is shown to who may read or schedule its follow-up, and each member to who may read that.
func TestWhoMayChangeAGroup(t *testing.T) {
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{
		"root": {"*:*"}, "both": {"schedule:report", "schedule:mail", "read:mail"}, "follow": {"schedule:report:seven", "read:report"},
		"mailer": {"schedule:mail"}, "wide": {"schedule:report"}, "reader": {"read:report"},
	})})
	for _, lambda := range []string{"mail", "report"} {
		r.callAs("root", kinesinv1connect.LambdaServiceCreateLambdaProcedure, `{"name":"`+lambda+`"}`)
	}
	chained, deep := `{"then":[{"lambda":"report","then":[{"lambda":"mail"}]}]}`, `{"then":[{"lambda":"mail"}],"else":[{"lambda":"mail","finally":[{"lambda":"mail","else":[{"lambda":"report"}]}]}]}`
	whole, part, other := `{"then":[{"lambda":"report"}]}`, `{"then":[{"lambda":"report","collection":"seven"}]}`, `{"then":[{"lambda":"report","collection":"seven"}],"else":[{"lambda":"mail"}]}`
	for _, c := range []struct {
		who, body string
		may       bool
	}{
		{"mailer", whole, false},
		{"reader", whole, false},
		{"follow", whole, false},
		{"follow", part, true},
		{"follow", other, false},
		{"follow", `{"then":[{"lambda":"report","collection":"seven"}],"finally":[{"lambda":"mail"}]}`, false},
		{"follow", `{"finally":[{"lambda":"report","collection":"seven"}]}`, true},
		{"both", other, true},
		{"mailer", deep, false},
		{"both", deep, true},
		{"both", chained, true},
		{"wide", chained, false},
	} {
		if answer, code := r.callAs(c.who, createGroup, c.body); (code == "") != c.may || !c.may && code != "permission_denied" {
			t.Errorf("%s as %s: %s", c.body, c.who, answer)
		}
	}
	answer, _ := r.callAs("root", createGroup, whole)
	var made struct{ Group struct{ ID string } }
	if err := json.Unmarshal([]byte(answer), &made); err != nil || made.Group.ID == "" {
		t.Fatal(answer, err)
	}
	id := made.Group.ID
	for _, c := range []struct{ who, procedure, body, code string }{
		{"mailer", addMembers, `{"group":"ID","items":[{"lambda":"mail"}]}`, "not_found"},
		{"reader", addMembers, `{"group":"ID","items":[{"lambda":"mail"}]}`, "permission_denied"},
		{"follow", addMembers, `{"group":"ID","items":[{"lambda":"mail"}]}`, "permission_denied"},
		{"both", addMembers, `{"group":"ID","items":[{"lambda":"mail"}]}`, ""},
		{"wide", addMembers, `{"group":"ID","at":1,"items":[{"lambda":"report","then":[{"lambda":"mail"}]}]}`, "permission_denied"},
		{"both", addMembers, `{"group":"ID","at":1,"items":[{"lambda":"report"}]}`, ""},
		{"mailer", getGroup, `{"id":"ID"}`, "not_found"},
		{"mailer", getGroup, `{"id":"none"}`, "not_found"},
		{"reader", getGroup, `{"id":"ID"}`, ""},
		{"both", getGroup, `{"id":"ID"}`, ""},
		{"mailer", listMembers, `{"group":"ID"}`, "not_found"},
		{"mailer", sealGroup, `{"group":"ID"}`, "not_found"},
		{"reader", sealGroup, `{"group":"ID"}`, "permission_denied"},
		{"follow", sealGroup, `{"group":"ID"}`, "permission_denied"},
		{"wide", sealGroup, `{"group":"ID"}`, ""},
		{"mailer", cancelGroup, `{"group":"ID"}`, "not_found"},
		{"follow", cancelGroup, `{"group":"ID"}`, "permission_denied"},
		{"root", cancelGroup, `{"group":"ID"}`, ""},
	} {
		if answer, code := r.callAs(c.who, c.procedure, strings.ReplaceAll(c.body, "ID", id)); code != c.code {
			t.Errorf("%s %s as %s: %s, want %q", c.procedure, c.body, c.who, answer, c.code)
		}
	}
	for who, sees := range map[string]string{"root": "mail report", "both": "mail", "reader": "report"} {
		answer, _ := r.callAs(who, listMembers, `{"group":"`+id+`"}`)
		for _, lambda := range []string{"mail", "report"} {
			if strings.Contains(answer, `"lambda":"`+lambda+`"`) != strings.Contains(sees, lambda) {
				t.Errorf("members as %s: %s, want %s", who, answer, sees)
			}
		}
	}
	log, _ := r.callAs("root", kinesinv1connect.AccessServiceListAuditProcedure, `{}`)
	for _, action := range []string{"group.create", "group.seal", "group.cancel"} {
		if !strings.Contains(log, action) {
			t.Errorf("no %s in the audit log", action)
		}
	}
}
