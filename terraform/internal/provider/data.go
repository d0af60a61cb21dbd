package main

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
)

// dataKind is a data source: what it tells, all of it text and none of it to be set.
type dataKind struct {
	name string
	tell func(*session) map[string]string
}

// dataKinds are all data sources that are served.
func dataKinds() []dataKind {
	return []dataKind{
		{"aws_region", func(s *session) map[string]string {
			return map[string]string{"id": s.region, "region": s.region, "description": s.region}
		}},
		{"aws_caller_identity", func(*session) map[string]string {
			return map[string]string{"id": accountID, "account_id": accountID, "user_id": "AIDA0", "arn": "arn:aws:iam::" + accountID + ":user/test"}
		}},
	}
}

// anyData is a data source of a kind.
type anyData struct {
	dataKind
	*session
}

func (d *anyData) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = d.name
}

func (d *anyData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{Attributes: map[string]schema.Attribute{}}
	for name := range d.tell(&session{}) {
		resp.Schema.Attributes[name] = schema.StringAttribute{Computed: true}
	}
}

func (d *anyData) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	d.session, _ = req.ProviderData.(*session)
}

func (d *anyData) Read(ctx context.Context, _ datasource.ReadRequest, resp *datasource.ReadResponse) {
	for name, text := range d.tell(d.session) {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(name), text)...)
	}
}
