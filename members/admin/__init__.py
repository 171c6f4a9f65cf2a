"""People, their teams and roles, and the audit log, in the admin."""

from members.admin.audit import AuditEntryAdmin
from members.admin.people import GroupAdmin, UserAdmin

__all__ = ["AuditEntryAdmin", "GroupAdmin", "UserAdmin"]
