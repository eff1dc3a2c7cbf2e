// Shows what arrives. The browser has decrypted it (RFC 8291); the text is the JSON of Docs/phone.md.
addEventListener("push", event => event.waitUntil(receive(event.data)));

function content(data) {
  const unknown = {title: "Notification", message: "Open the desktop app"};
  try { return data.json() ?? unknown; } catch { return unknown; }
}

async function receive(data) {
  const {type, title, message = "", actionRequired = ""} = content(data);
  if (type === "ERASE") {
    // The desktop has ended the pairing: its push server answers that this browser is gone.
    return (await registration.pushManager.getSubscription())?.unsubscribe();
  }
  const text = {title: title || "Paired", message, actionRequired};
  // The same text replaces its first copy.
  await registration.showNotification(text.title, {body: [message, actionRequired].filter(Boolean).join("\n"), tag: data?.text()});
  for (const page of await clients.matchAll({includeUncontrolled: true})) page.postMessage(text);
}

addEventListener("notificationclick", event => {
  event.notification.close();
  event.waitUntil(clients.openWindow("."));
});
