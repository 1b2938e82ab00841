// Package azure looks at one rented virtual machine of Azure and gives its
// compute back: it checks that the machine is the one that is meant, asks for
// deallocation, and believes nothing but the instance view's own word
// PowerState/deallocated. A stopped guest, a closed session and an accepted
// request are not that.
//
// Credentials stay on this side: no token, no header and no text of an answer
// goes into what is recorded. Reference: the REST API of Microsoft.Compute,
// Virtual Machines (Get with $expand=instanceView, Deallocate), and
// Microsoft.Network (network interfaces, subnets, network security groups), by
// way of armcompute and armresources.
package azure

import (
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages"
)

const resourceType = "Microsoft.Compute/virtualMachines"

// ResourceID is the machine's resource id in Azure Resource Manager.
func ResourceID(m schemas.Compute) string {
	return fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/%s/%s", m.Subscription, m.ResourceGroup, resourceType, m.Name)
}

// identify holds an answer against the machine that is meant: subscription,
// resource group, name, type, resource id and vmId. Azure spells identifiers in
// either case; nothing else may differ. A field that is missing differs.
func identify(m schemas.Compute, vm *armcompute.VirtualMachine) error {
	var differ []string
	expect := func(what, got, want string) {
		if !strings.EqualFold(got, want) || want == "" {
			differ = append(differ, what)
		}
	}
	id, err := arm.ParseResourceID(text(vm.ID))
	if err != nil {
		id = &arm.ResourceID{}
	}
	expect("subscription", id.SubscriptionID, m.Subscription)
	expect("resource group", id.ResourceGroupName, m.ResourceGroup)
	expect("name", text(vm.Name), m.Name)
	expect("resource type", text(vm.Type), resourceType)
	expect("resource id", text(vm.ID), ResourceID(m))
	var vmID string
	if vm.Properties != nil {
		vmID = text(vm.Properties.VMID)
	}
	expect("vmId", vmID, m.VMID)
	if len(differ) > 0 {
		return &stages.OtherMachine{What: differ}
	}
	return nil
}

func text[T ~string](p *T) string {
	if p == nil {
		return ""
	}
	return string(*p)
}
