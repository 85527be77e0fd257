const choice = document.getElementById('group');
if (choice) choice.addEventListener('change', () => {
  for (const e of document.querySelectorAll('[data-group]')) e.hidden = choice.value !== '' && e.dataset.group !== choice.value;
});
