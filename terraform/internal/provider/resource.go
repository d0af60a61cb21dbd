package main

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// kind is a resource type.
type kind struct {
	name   string
	schema schema.Schema
	// conflicts are attributes of which the real provider takes one at most.
	conflicts []string
	// adopts says that AWS makes no difference between a new one and a change of one that is there.
	adopts bool
	// identify sets the id and what else AWS would tell of something new.
	identify func(s *session, v values)
	// service makes it really; nil for what is in the account only.
	service service
}

// service is where resources of a kind really are.
type service interface {
	create(ctx context.Context, s *session, v values) error
	// read takes over what is there now; errGone when nothing is.
	read(ctx context.Context, s *session, v values) error
	update(ctx context.Context, s *session, prior, v values) error
	remove(ctx context.Context, s *session, v values) error
}

// finder is a service whose resources can be imported by their ids.
type finder interface {
	service
	// find fills in what the configuration names; errGone when there is nothing with the id.
	find(ctx context.Context, s *session, v values) error
}

// keeper is a service that keeps of a resource what an update does not mention.
type keeper interface {
	// keep is what is in the account after an update.
	keep(prior, v values) values
}

var errGone = errors.New("gone")

// goneOr is errGone for the error by which a service says that something is not there, and any other error as
// it is.
func goneOr[Missing error](err error) error {
	if _, missing := errors.AsType[Missing](err); missing {
		return errGone
	}
	return err
}

// anyResource is a resource of a kind.
type anyResource struct {
	kind
	*session
}

func (r *anyResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = r.name
}

func (r *anyResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.schema
}

func (r *anyResource) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.session, _ = req.ProviderData.(*session)
}

// ValidateConfig refuses attributes that exclude each other.
func (r *anyResource) ValidateConfig(_ context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	given, err := decode(req.Config.Raw)
	if err != nil {
		resp.Diagnostics.AddError(r.name, err.Error())
		return
	}
	var set []string
	for _, name := range r.conflicts {
		if given[name] != nil {
			set = append(set, name)
		}
	}
	if len(set) > 1 {
		resp.Diagnostics.AddError("Conflicting configuration arguments", fmt.Sprintf("%s takes only one of %v", r.name, set))
	}
}

// ImportState takes over what is there by its id, which Read then looks up: what is in the account alone,
// tables and queues.
func (r *anyResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	if _, ok := r.service.(finder); !ok && r.service != nil {
		resp.Diagnostics.AddError(r.name, "the test-only provider does not import these")
		return
	}
	resource.ImportStatePassthroughID(ctx, path.Root("id"), req, resp)
}

// ModifyPlan adds the default tags, as the real provider does.
func (r *anyResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if _, tagged := r.schema.Attributes["tags_all"]; !tagged || req.Plan.Raw.IsNull() || r.session == nil {
		return
	}
	var tags types.Map
	resp.Diagnostics.Append(req.Plan.GetAttribute(ctx, path.Root("tags"), &tags)...)
	if tags.IsUnknown() || resp.Diagnostics.HasError() {
		return
	}
	plan, err := decode(req.Plan.Raw)
	if err != nil {
		resp.Diagnostics.AddError(r.name, err.Error())
		return
	}
	own, _ := plan["tags"].(map[string]any)
	all := map[string]string{}
	for _, some := range []map[string]any{r.defaultTags, own} {
		for name, value := range some {
			if value == nil { // not known yet
				return
			}
			all[name], _ = value.(string)
		}
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("tags_all"), all)...)
}

func (r *anyResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	r.settle(&resp.Diagnostics, &resp.State, func() (values, error) {
		v, err := decode(req.Plan.Raw)
		if err != nil {
			return nil, err
		}
		if _, ok := r.schema.Attributes["region"]; ok && v["region"] == nil {
			v["region"] = r.region
		}
		r.identify(r.session, v)
		if r.service == nil {
			there, err := r.account.get(r.name, v.text("id"))
			if err != nil {
				return nil, err
			}
			if there != nil && !r.adopts {
				return nil, fmt.Errorf("%s is there already", v.text("id"))
			}
		} else if err := r.service.create(ctx, r.session, v); err != nil {
			return nil, err
		}
		return v, r.account.put(r.name, v)
	})
}

func (r *anyResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	r.settle(&resp.Diagnostics, &resp.State, func() (values, error) {
		v, err := decode(req.State.Raw)
		if err != nil {
			return nil, err
		}
		there, err := r.account.get(r.name, v.text("id"))
		if err == nil && there == nil && v["arn"] == nil {
			there, err = r.found(ctx, v)
		}
		if err != nil || there == nil {
			return nil, err
		}
		maps.Copy(v, there)
		if r.service == nil {
			return v, nil
		}
		if err := r.service.read(ctx, r.session, v); errors.Is(err, errGone) {
			return nil, r.account.remove(r.name, v.text("id"))
		} else if err != nil {
			return nil, err
		}
		return v, nil
	})
}

// found is what is there of an import, now in the account, too; nil when nothing is.
func (r *anyResource) found(ctx context.Context, v values) (values, error) {
	service, ok := r.service.(finder)
	if !ok {
		return nil, nil
	}
	there := maps.Clone(v)
	if err := service.find(ctx, r.session, there); errors.Is(err, errGone) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	there["region"] = r.region
	r.identify(r.session, there)
	return there, r.account.put(r.name, there)
}

func (r *anyResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	r.settle(&resp.Diagnostics, &resp.State, func() (values, error) {
		prior, err := decode(req.State.Raw)
		if err != nil {
			return nil, err
		}
		v, err := decode(req.Plan.Raw)
		if err != nil {
			return nil, err
		}
		if r.service != nil {
			if err := r.service.update(ctx, r.session, prior, v); err != nil {
				return nil, err
			}
		}
		there := v
		if k, ok := r.service.(keeper); ok {
			there = k.keep(prior, v)
		}
		return v, r.account.put(r.name, there)
	})
}

func (r *anyResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	v, err := decode(req.State.Raw)
	if err == nil && r.service != nil {
		if err = r.service.remove(ctx, r.session, v); errors.Is(err, errGone) {
			err = nil
		}
	}
	if err == nil {
		err = r.account.remove(r.name, v.text("id"))
	}
	if err != nil {
		resp.Diagnostics.AddError(r.name, err.Error())
	}
}

// settle makes what an action came to the state; nil is nothing there.
func (r *anyResource) settle(diagnostics *diag.Diagnostics, state *tfsdk.State, action func() (values, error)) {
	v, err := action()
	if err != nil {
		diagnostics.AddError(r.name, err.Error())
		return
	}
	raw, err := encodeState(state.Raw.Type(), v)
	if err != nil {
		diagnostics.AddError(r.name, err.Error())
		return
	}
	state.Raw = raw
}

func encodeState(kind tftypes.Type, v values) (tftypes.Value, error) {
	if v == nil {
		return tftypes.NewValue(kind, nil), nil
	}
	return encode(kind, map[string]any(v))
}
