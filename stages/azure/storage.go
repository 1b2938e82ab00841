package azure

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/arm"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"
)

// Disk is one disk of a machine. Ephemeral disks lose their content when the
// machine is deallocated; a temporary disk of the size itself is not listed by Azure.
type Disk struct {
	Name      string `json:"name"`
	Role      string `json:"role"`    // os or data
	Number    int32  `json:"number"`  // LUN of a data disk
	SizeGiB   int32  `json:"sizeGiB"` // 0 where Azure does not say
	SKU       string `json:"sku"`     // e.g. StandardSSD_LRS; empty where Azure does not say
	Ephemeral bool   `json:"ephemeral"`
	OnDelete  string `json:"onDelete,omitempty"` // Delete, Detach
}

// readDisks lists the disks; size and kind of a managed disk come from the disk
// itself, for a deallocated machine does not repeat them.
func (c *Client) readDisks(ctx context.Context, o *Observation, vm *armcompute.VirtualMachine) {
	storage := vm.Properties.StorageProfile
	if storage == nil {
		o.find("disks", "the answer names no disks")
		return
	}
	if d := storage.OSDisk; d != nil {
		disk := Disk{Name: text(d.Name), Role: "os", SizeGiB: number(d.DiskSizeGB), OnDelete: text(d.DeleteOption)}
		disk.Ephemeral = d.DiffDiskSettings != nil && text(d.DiffDiskSettings.Option) == string(armcompute.DiffDiskOptionsLocal)
		c.readDisk(ctx, o, &disk, d.ManagedDisk)
		if disk.Ephemeral {
			o.find("ephemeral disk", "the OS disk is ephemeral: its content is gone once the machine is deallocated")
		}
		o.Disks = append(o.Disks, disk)
	}
	for _, d := range storage.DataDisks {
		if d == nil {
			continue
		}
		disk := Disk{Name: text(d.Name), Role: "data", Number: number(d.Lun), SizeGiB: number(d.DiskSizeGB), OnDelete: text(d.DeleteOption)}
		c.readDisk(ctx, o, &disk, d.ManagedDisk)
		o.Disks = append(o.Disks, disk)
	}
}

func (c *Client) readDisk(ctx context.Context, o *Observation, disk *Disk, managed *armcompute.ManagedDiskParameters) {
	if managed == nil {
		return
	}
	disk.SKU = text(managed.StorageAccountType)
	id, err := arm.ParseResourceID(text(managed.ID))
	if err != nil || disk.Ephemeral || (disk.SKU != "" && disk.SizeGiB != 0) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	resp, err := c.disks.Get(ctx, id.ResourceGroupName, id.Name, nil)
	if err != nil {
		o.find("disk not read", "%s: %v", disk.Name, callError("read the disk", err))
		return
	}
	if resp.SKU != nil {
		disk.SKU = text(resp.SKU.Name)
	}
	if resp.Properties != nil {
		disk.SizeGiB = number(resp.Properties.DiskSizeGB)
	}
}

func number[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
