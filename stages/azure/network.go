package azure

import (
	"context"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// Network is how a machine can be reached.
type Network struct {
	Interfaces int    `json:"interfaces"`
	PublicIP   bool   `json:"publicIp"` // at least one interface has one
	Groups     int    `json:"groups"`   // network security groups that were read
	Rules      []Rule `json:"rules"`    // that allow something in
}

// Rule is one inbound rule that allows.
type Rule struct {
	Group    string   `json:"group"` // resource id of its network security group
	Name     string   `json:"name"`
	Priority int32    `json:"priority"`
	Protocol string   `json:"protocol"`
	Sources  []string `json:"sources"`
	Ports    []string `json:"ports"`
	FromAny  bool     `json:"fromAny"` // anybody on the internet is let in
}

// everybody are the sources by which a rule lets anybody in.
var everybody = []string{"*", "any", "internet", "0.0.0.0/0", "::/0"}

// readNetwork reads interfaces, their security groups and those of their
// subnets. A rule that lets anybody in is a finding, and so is an interface
// without any group; what may not be read is a finding too.
func (c *Client) readNetwork(ctx context.Context, o *Observation, vm *armcompute.VirtualMachine) {
	o.Network.Rules = []Rule{}
	profile := vm.Properties.NetworkProfile
	if profile == nil || len(profile.NetworkInterfaces) == 0 {
		o.find("network not read", "the answer names no network interface")
		return
	}
	seen := map[string]bool{}
	for _, ref := range profile.NetworkInterfaces {
		if ref == nil {
			continue
		}
		o.Network.Interfaces++
		groups, err := c.groupsOf(ctx, o, text(ref.ID))
		if err != nil {
			o.find("network not read", "%v", err)
			continue
		}
		if len(groups) == 0 {
			o.find("no network rules", "an interface without a network security group, nor has its subnet one")
		}
		for _, id := range groups {
			if key := strings.ToLower(id); !seen[key] {
				seen[key] = true
				if err := c.readGroup(ctx, o, id); err != nil {
					o.find("network not read", "%v", err)
				}
			}
		}
	}
	if o.Network.PublicIP {
		o.find("public address", "the machine has a public address; it is billed also while the machine is deallocated, where it is static")
	}
}

// groupsOf reads an interface and gives the ids of the groups that guard it.
func (c *Client) groupsOf(ctx context.Context, o *Observation, nic string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	id, err := arm.ParseResourceID(nic)
	if err != nil {
		return nil, &CallError{What: "read a network interface", why: badAnswer}
	}
	var p interfaceProperties
	if err := c.readNetworkResource(ctx, &p, id.ResourceGroupName, "networkInterfaces", id.Name); err != nil {
		return nil, callError("read a network interface", err)
	}
	var groups []string
	if g := p.NetworkSecurityGroup; g != nil {
		groups = append(groups, g.ID)
	}
	for _, ip := range p.IPConfigurations {
		o.Network.PublicIP = o.Network.PublicIP || ip.Properties.PublicIPAddress != nil
		if ip.Properties.Subnet == nil {
			continue
		}
		group, err := c.groupOfSubnet(ctx, ip.Properties.Subnet.ID)
		if err != nil {
			return nil, err
		}
		if group != "" {
			groups = append(groups, group)
		}
	}
	return groups, nil
}

func (c *Client) groupOfSubnet(ctx context.Context, subnet string) (string, error) {
	id, err := arm.ParseResourceID(subnet)
	if err != nil || id.Parent == nil {
		return "", &CallError{What: "read a subnet", why: badAnswer}
	}
	var p subnetProperties
	if err := c.readNetworkResource(ctx, &p, id.ResourceGroupName, "virtualNetworks", id.Parent.Name, "subnets", id.Name); err != nil {
		return "", callError("read a subnet", err)
	}
	if p.NetworkSecurityGroup == nil {
		return "", nil
	}
	return p.NetworkSecurityGroup.ID, nil
}

func (c *Client) readGroup(ctx context.Context, o *Observation, group string) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	id, err := arm.ParseResourceID(group)
	if err != nil {
		return &CallError{What: "read a network security group", why: badAnswer}
	}
	var p groupProperties
	if err := c.readNetworkResource(ctx, &p, id.ResourceGroupName, "networkSecurityGroups", id.Name); err != nil {
		return callError("read a network security group", err)
	}
	o.Network.Groups++
	for _, r := range p.SecurityRules {
		p := r.Properties
		if p.Access != "Allow" || p.Direction != "Inbound" {
			continue
		}
		rule := Rule{Group: group, Name: r.Name, Priority: p.Priority, Protocol: p.Protocol,
			Sources: gather(p.SourceAddressPrefix, p.SourceAddressPrefixes), Ports: gather(p.DestinationPortRange, p.DestinationPortRanges)}
		rule.FromAny = slices.ContainsFunc(rule.Sources, func(s string) bool { return slices.Contains(everybody, strings.ToLower(s)) })
		o.Network.Rules = append(o.Network.Rules, rule)
		if rule.FromAny {
			o.find("open to anybody", "rule %s of %s lets anybody reach port %s; allow the observed management address only", rule.Name, group, strings.Join(rule.Ports, ", "))
		}
	}
	return nil
}

func gather(one string, more []string) []string {
	list := []string{}
	for _, s := range append([]string{one}, more...) {
		if s != "" {
			list = append(list, s)
		}
	}
	return list
}
