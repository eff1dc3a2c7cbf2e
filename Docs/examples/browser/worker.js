// Shows what arrives. The browser has decrypted it (RFC 8291); the text is the JSON of the desktop.
addEventListener("push", event => event.waitUntil(receive(event.data)));

function content(data) {
  try { return data.json(); } catch { return {title: "Notification", message: "Open the desktop app"}; }
}

async function receive(data) {
  const {type, title, message = ""} = content(data);
  if (type === "ERASE") {
    // The desktop has ended the pairing: its push server answers that this browser is gone.
    return (await registration.pushManager.getSubscription())?.unsubscribe();
  }
  const text = {title: title || "Paired", message};
  await registration.showNotification(text.title, {body: text.message});
  for (const page of await clients.matchAll({includeUncontrolled: true})) page.postMessage(text);
}

addEventListener("notificationclick", event => {
  event.notification.close();
  event.waitUntil(clients.openWindow("."));
});
